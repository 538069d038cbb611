"""Files that are never half-written."""

import errno
import os
import stat

import pytest

from rankwise.files import replacing


class TestReplacing:
    def test_a_new_file_obeys_the_umask(self, tmp_path):
        before = os.umask(0o027)
        try:
            with replacing(tmp_path / "new") as beside:
                beside.write_text("x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640

    def test_an_old_file_keeps_its_permissions(self, tmp_path):
        path = tmp_path / "old"
        path.write_text("old")
        path.chmod(0o604)
        with replacing(path) as beside:
            beside.write_text("new")
            assert path.read_text() == "old"
        assert path.read_text() == "new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604

    def test_the_error_of_a_full_disk_names_the_file(self, tmp_path):
        path = tmp_path / "new"
        with pytest.raises(OSError, match=f"No space left: '{path}'"), replacing(path):
            raise OSError(errno.ENOSPC, "No space left")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_an_error_leaves_everything_as_it_was(self, tmp_path, error):
        path = tmp_path / "old"
        path.write_text("old")

        def half():
            with replacing(path) as beside:
                beside.write_text("half")
                raise error

        with pytest.raises(error):
            half()
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["old"]

    def test_a_link_stays_a_link(self, tmp_path):
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_text("old")
        link.symlink_to(target)
        with replacing(link) as beside:
            beside.write_text("new")
        assert link.is_symlink()
        assert target.read_text() == "new"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_written_to_and_not_replaced(self, tmp_path):
        """Devices are treated alike; if a test on one failed, root would have replaced it."""
        path = tmp_path / "pipe"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with replacing(path) as beside:
                beside.write_text("content")
            assert stat.S_ISFIFO(os.stat(path).st_mode)
            assert os.read(reader, 100) == b"content"
        finally:
            os.close(reader)

    def test_a_very_long_name(self, tmp_path):
        path = tmp_path / ("x" * 250)
        with replacing(path) as beside:
            beside.write_text("fits")
        assert path.read_text() == "fits"

    def test_what_a_killed_program_left_is_removed(self, tmp_path):
        path = tmp_path / "model.rankwise"
        abandoned = tmp_path / ".model.rankwise.0123abcd.tmp"
        others = tmp_path / ".model.rankwise.txt.0123abcd.tmp", tmp_path / ".model.rankwise.tmp"
        for file in (abandoned, *others):
            file.write_text("half")
        with replacing(path) as first:
            assert not abandoned.exists()
            with replacing(path) as second:  # as another program would at the same time
                second.write_text("second")
            first.write_text("first")
        assert path.read_text() == "first"
        assert all(file.exists() for file in others)
        assert len(list(tmp_path.iterdir())) == 3

    def test_no_such_folder_and_a_folder_itself(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no such folder"), replacing(tmp_path / "a/b"):
            pass
        with pytest.raises(IsADirectoryError), replacing(tmp_path):
            pass
