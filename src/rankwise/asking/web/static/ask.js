// Keys for the buttons, words for screen readers, a word if the connection is lost, links and files.
"use strict";
(function () {
  const KEYS = "rankwise-keys";

  function keysAreOn() {
    try {
      return localStorage.getItem(KEYS) !== "off";
    } catch (error) {
      return true; // storage may be forbidden
    }
  }

  function showKeys() {
    const box = document.getElementById("keys");
    if (box) box.checked = keysAreOn();
  }

  document.addEventListener("change", function (event) {
    if (event.target.id !== "keys") return;
    try {
      localStorage.setItem(KEYS, event.target.checked ? "on" : "off");
    } catch (error) {
      // it holds until the page is loaded again
    }
  });

  function isOurs(key) {
    return /^(Arrow(Left|Right|Down)|[bsu])$/i.test(key);
  }

  let busy = false;
  function setBusy(state) {
    busy = state;
    document.body.dataset.busy = state ? "yes" : "no";
  }

  document.addEventListener("keydown", function (event) {
    const box = document.getElementById("keys");
    if (!box || !box.checked || event.repeat || !isOurs(event.key)) return;
    if (busy) {
      event.preventDefault(); // the next pair is on its way, or htmx does not know its buttons yet
      return;
    }
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const button = Array.from(document.querySelectorAll("button[data-key]")).find(
      function (b) { return b.dataset.key === key; }
    );
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  });

  document.addEventListener("click", function (event) {
    const side = event.target.closest(".side");
    if (event.detail > 1 && event.target.closest(".pair")) {
      event.preventDefault(); // the second click of a double click is for no pair that was seen
      event.stopPropagation();
    } else if (side && event.target.matches(".item img") && !busy) {
      side.querySelector("button.choose").click();
    }
  }, true);

  document.addEventListener("focusin", function (event) {
    if (event.target.matches("input.link")) event.target.select(); // ready to be copied
  });

  function copy(button) {
    const link = button.parentElement.querySelector("input.link");
    link.select();
    function said(done) {
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(function () { button.textContent = "Copy"; }, 2000);
    }
    if (navigator.clipboard) { // only on this machine, or with encryption
      navigator.clipboard.writeText(link.value).then(
        function () { said(true); }, function () { said(document.execCommand("copy")); }
      );
    } else {
      said(document.execCommand("copy"));
    }
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });

  function showFiles(input) { // files that are too large keep the form from being sent
    const place = input.closest(".drop"), MiB = 1024 * 1024;
    const files = Array.from(input.files).sort(function (a, b) { return b.size - a.size; });
    const names = Array.from(input.files).map(function (file) { return file.name; });
    const size = files.reduce(function (sum, file) { return sum + file.size; }, 0) / MiB;
    const fault = size < place.dataset.most - 0.1 ? "" : "These files have " + size.toFixed(1) +
      " MiB, and at most " + place.dataset.most + " can be sent at once. The largest is " +
      files[0].name + " (" + (files[0].size / MiB).toFixed(1) + " MiB).";
    input.setCustomValidity(fault);
    place.querySelector("output").textContent = [names.join(", "), fault].filter(Boolean).join(". ");
  }

  function addFiles(place, files) { // to those that are chosen already
    const input = place.querySelector("input[type=file]");
    const all = new DataTransfer();
    const known = Array.from(input.files);
    known.concat(Array.from(files)).forEach(function (file, k) {
      const again = known.some(function (old) { return old.name === file.name && old.size === file.size; });
      if (k < known.length || !again) all.items.add(file);
    });
    input.files = all.files;
    showFiles(input);
  }

  function markDrop(event, over) {
    const place = document.querySelector(".drop"); // files may fall beside it
    if (!place || !event.dataTransfer.types.includes("Files")) return null;
    event.preventDefault(); // the browser would leave the page and show the file
    place.classList.toggle("over", over);
    return place;
  }

  document.addEventListener("dragover", function (event) { markDrop(event, true); });
  document.addEventListener("dragleave", function (event) { markDrop(event, false); });
  document.addEventListener("drop", function (event) {
    const place = markDrop(event, false);
    if (place) addFiles(place, event.dataTransfer.files);
  });
  document.addEventListener("paste", function (event) {
    const place = document.querySelector(".drop");
    const files = event.clipboardData.files;
    if (!place || !files.length) return; // text goes where it is pasted
    event.preventDefault();
    const known = place.querySelector("input[type=file]").files.length;
    addFiles(place, Array.from(files).map(function (file, k) { // all are called image.png
      return new File([file], file.name.replace(/^image\./, "picture " + (known + k + 1) + "."), { type: file.type });
    }));
  });
  document.addEventListener("change", function (event) {
    if (event.target.matches(".drop input")) showFiles(event.target);
  });

  let last = "";
  document.addEventListener("htmx:beforeRequest", function () {
    setBusy(true);
    const focused = document.activeElement;
    last = (focused && focused.dataset && focused.dataset.key) || "";
    const lost = document.getElementById("connection");
    if (lost) lost.hidden = true;
  });

  document.addEventListener("htmx:afterSettle", function () {
    setBusy(false);
    const main = document.getElementById("main");
    const status = document.getElementById("status");
    if (!main || !status) return;
    showKeys();
    if (!main.querySelector(".pair") && !main.dataset.said) return; // nothing new to tell
    const question = document.getElementById("question");
    const same = last && document.querySelector('button[data-key="' + last + '"]:not([disabled])');
    (same || question).focus({ preventScroll: true });
    const names = Array.from(main.querySelectorAll(".item h2")).map(function (h) {
      return h.textContent;
    });
    status.textContent = [main.dataset.said, names.join(" or ")].filter(Boolean).join(" ");
    if (window.scrollY > 0) window.scrollTo(0, 0);
  });

  document.addEventListener("htmx:sendError", function () {
    setBusy(false);
    const lost = document.getElementById("connection");
    if (lost) lost.hidden = false;
  });

  showKeys();
  setBusy(false);
})();
