# SPDX-License-Identifier: MIT
"""`gpuq web` on its own queue, and requests to it."""
import http.client
import json
import os
import threading
import urllib.parse

LIMIT = 240  # seconds, timeout for operations that take milliseconds


class Page:
    """A running server, and requests to it."""

    def __init__(self, lab, *words, env=None, queue=True):
        self.lab = lab
        if queue and not lab.journal.exists():
            lab.add("true")
        self.process = lab.start("web", "--listen", "127.0.0.1:0", *words, text=True, env=env or {})
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.process.stderr.read()
        parts = urllib.parse.urlsplit(self.address)
        self.port = parts.port
        self.host = parts.netloc
        self.token = parts.fragment.removeprefix("token=")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)

    def ask(self, path, method="GET", token=True, headers=None, body=None):
        """The complete response: status, headers, content."""
        connection = self.connect()
        connection.request(method, path, body=body, headers=self.headers(token) | (headers or {}))
        response = connection.getresponse()
        response.content = response.read()
        connection.close()
        return response

    def headers(self, token=True):
        authorization = {"Authorization": f"Bearer {self.token if token is True else token}"} if token else {}
        return {"Host": self.host} | authorization

    def json(self, path, **options):
        response = self.ask(path, **options)
        assert response.status == 200, (path, response.status, response.content)
        return json.loads(response.content)

    def status(self, path, **options):
        return self.ask(path, **options).status

    def act(self, job, action, **options):
        return self.ask(f"/api/jobs/{job}/{action}", method="POST", **options)

    def stream(self, query="", **options):
        return Stream(self, query, **options)


class Stream:
    """Server-sent events, as they arrive."""

    def __init__(self, page, query="", token=True):
        self.connection = page.connect()
        self.connection.request("GET", f"/api/stream?{query}", headers=page.headers(token))
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        """(name, data) of the next event; comments are skipped."""
        name, data = None, None
        for line in iter(self.response.readline, b""):
            text = line.decode().rstrip("\n")
            if text.startswith("event:"):
                name = text[6:]
            elif text.startswith("data:"):
                data = json.loads(text[5:])
            elif not text and name:
                return name, data
        raise EOFError("the stream has ended")

    def until(self, name, condition=lambda data: True):
        """The first event of that name for which the condition holds. Without such an event it runs
        into the test's time limit."""
        timer = threading.Timer(LIMIT, self.connection.sock.shutdown, [2]) if self.connection.sock else None
        if timer:
            timer.start()
        try:
            while True:
                got, data = self.next()
                if got == name and condition(data):
                    return data
        finally:
            if timer:
                timer.cancel()

    def close(self):
        self.response.close()
        self.connection.close()


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def is_root():
    return os.geteuid() == 0
