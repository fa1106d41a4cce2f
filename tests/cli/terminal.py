# SPDX-License-Identifier: MIT
"""A program in its own terminal, and the content of its screen."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\x1b\[?[0-9;?]*$)|\x1b(.)|([\s\S])")
LIMIT = 240


class Screen:
    """
    Rows and columns, the scrollback above them, and a cursor. Supports only what our programs use;
    anything else is an error. A row is (text, wrapped): whether the next row continues its line.
    """

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.history, self.lines, self.wrapped = [], [[] for _ in range(rows)], [False] * rows
        self.row = self.column = 0
        self.cursor = True
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        for match in TOKEN.finditer(text):
            if match.group(2):
                self.control(match.group(1), match.group(2))
            elif match.group(3):
                self.rest = match.group(3)
            elif match.group(5):
                self.character(match.group(5))
            else:
                raise AssertionError(f"unknown sequence {match.group(0)!r}")

    def down(self):
        if self.row + 1 < self.rows:
            self.row += 1
            return
        self.history.append("".join(self.lines.pop(0)))
        self.wrapped.pop(0)
        self.lines.append([])
        self.wrapped.append(False)

    def character(self, char):
        if char == "\n":
            self.down()
        elif char == "\r":
            self.column = 0
        elif char == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif char >= " ":
            self.put(char)
        else:
            raise AssertionError(f"unknown control character {char!r}")

    def put(self, char):
        line = self.lines[self.row]
        if unicodedata.combining(char):
            line[self.column - 1] += char
            return
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self.column + width > self.columns:
            self.wrapped[self.row] = True
            self.down()
            self.column = 0
            line = self.lines[self.row]
        line.extend(" " * (self.column + width - len(line)))
        line[self.column:self.column + width] = [char] + [""] * (width - 1)
        self.column += width

    def control(self, arguments, what):
        first = int(arguments) if arguments.isdigit() else 0
        if what == "m":
            pass
        elif what in "hl" and arguments == "?25":
            self.cursor = what == "h"
        elif what in "hl" and arguments == "?2026":
            pass
        elif what == "A":
            self.row = max(self.row - (first or 1), 0)
        elif what == "B":
            self.row = min(self.row + (first or 1), self.rows - 1)
        elif what == "K" and first == 0:
            del self.lines[self.row][self.column:]
            self.wrapped[self.row] = False
        elif what == "J" and first == 0:
            del self.lines[self.row][self.column:]
            for row in range(self.row, self.rows):
                self.wrapped[row] = False
            for row in range(self.row + 1, self.rows):
                self.lines[row] = []
        else:
            raise AssertionError(f"unknown sequence {arguments}{what}")

    def resize(self, columns, rows, reflow):
        """Wraps lines that do not fit, like VTE and tmux, or cuts them off, like xterm."""
        whole, cursor = [], None
        row = 0
        while row < self.rows:
            line, begin = [], row
            while True:
                if row == self.row:
                    cursor = (len(whole), len(line) + self.column)
                line += self.lines[row]
                row += 1
                if row == self.rows or not self.wrapped[row - 1] or not reflow:
                    break
            whole.append(line)
            assert row > begin
        while len(whole) > cursor[0] + 1 and not whole[-1]:
            whole.pop()
        lines, wrapped = [], []
        for number, line in enumerate(whole):
            pieces = [line[i:i + columns] for i in range(0, len(line), columns)] or [[]]
            pieces = pieces if reflow else pieces[:1]
            if number == cursor[0]:
                self.row, self.column = len(lines) + cursor[1] // columns, cursor[1] % columns
            lines += pieces
            wrapped += [True] * (len(pieces) - 1) + [False]
        # Too many rows: remove empty rows below the cursor first, and other rows below it last.
        while len(lines) > rows and len(lines) - 1 > self.row and not lines[-1]:
            lines.pop(), wrapped.pop()
        while len(lines) > rows and self.row > 0:
            self.history.append("".join(lines.pop(0)))
            wrapped.pop(0)
            self.row -= 1
        del lines[rows:], wrapped[rows:]
        lines += [[] for _ in range(rows - len(lines))]
        wrapped += [False] * (rows - len(wrapped))
        self.columns, self.rows, self.lines, self.wrapped = columns, rows, lines, wrapped

    def text(self):
        return [re.sub(" +$", "", "".join(line)) for line in self.lines]

    def everything(self):
        return "\n".join(line.rstrip() for line in self.history + self.text()).rstrip() + "\n"


class Terminal:
    def __init__(self, command, columns=80, rows=24, cwd=None, env=None):
        self.screen = Screen(columns, rows)
        self.status = None
        self.bytes = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                # Default signal handling as in a terminal; the tests may have inherited ignored
                # signals (from a shell's "&").
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGTSTP):
                    signal.signal(number, signal.SIG_DFL)
                os.chdir(cwd or ".")
                self.set_size(0, columns, rows)
                environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": None, **(env or {})}
                environment = {name: value for name, value in environment.items() if value is not None}
                os.execvpe(command[0], [str(word) for word in command], environment)
            finally:
                os._exit(127)

    @staticmethod
    def set_size(fd, columns, rows):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows, reflow=True):
        self.pump(0)
        self.screen.resize(columns, rows, reflow)
        self.set_size(self.fd, columns, rows)

    def pump(self, seconds):
        """Reads available output, or waits for it that long; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self.bytes += len(data)
        # A character may be split between two reads.
        data = getattr(self, "half", b"") + data
        text = data.decode("utf-8", "ignore")
        self.half = data[len(text.encode()):]
        self.screen.feed(text)
        return bool(data)

    def until(self, condition, what="the event"):
        """Waits until the condition on the screen holds; returns its value."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            value = condition(self.screen)
            if value:
                return value
            if not self.pump(0.1):
                break
        value = condition(self.screen)
        assert value, f"timed out waiting for {what}:\n" + "\n".join(self.screen.text())
        return value

    def shows(self, words):
        return self.until(lambda screen: any(words in line for line in screen.text()), repr(words))

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def wait(self):
        """The exit status as returned by os.waitstatus_to_exitcode()."""
        deadline = time.monotonic() + LIMIT
        while self.pump(0.1) and time.monotonic() < deadline:
            pass
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                break
            assert time.monotonic() < deadline, "the program does not exit:\n" + "\n".join(self.screen.text())
            time.sleep(0.01)
        return self.status

    def end(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
