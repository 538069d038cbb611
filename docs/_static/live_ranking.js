// A slider over the figures of one `live` directive, where there are several.
document.addEventListener("DOMContentLoaded", () => {
  for (const group of document.querySelectorAll(".live-figures")) {
    const figures = [...group.querySelectorAll("figure.live")];
    if (figures.length < 2) continue;
    const label = document.createElement("label");
    const slider = document.createElement("input");
    const text = document.createElement("output");
    Object.assign(slider, { type: "range", min: 0, max: figures.length - 1, value: 0 });
    const show = () => {
      figures.forEach((figure, k) => { figure.hidden = k !== Number(slider.value); });
      text.value = figures[slider.value].dataset.label;
    };
    slider.addEventListener("input", show);
    label.append(slider, text);
    group.prepend(label);
    show();
  }
});
