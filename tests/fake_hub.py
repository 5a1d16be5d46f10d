"""A hub on this machine: the few requests of the Hugging Face hub's interface that pushing and fetching a model make."""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OWNER, TOKEN = "me", "hf_token_of_the_tests"


@dataclass
class Repository:
    private: bool
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


class FakeHub:
    """Models by name; those that are private are shown to the token's owner alone, who may write to `me/...`."""

    def __init__(self) -> None:
        self.models: dict[str, Repository] = {}
        self.uploads: dict[str, bytes] = {}  # large files by digest, before a commit names them
        self.requests: list[str] = []
        self.broken = False  # answers every request with an error of the server
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        hub.requests.append(f"{self.command} {path}")
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        is_owner = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if hub.broken:
            self.answer({"error": "out of order"}, 503)
        elif path == "/api/whoami-v2":
            self.answer(
                {"name": OWNER, "type": "user"} if is_owner else {"error": "Invalid credentials"}, 200 if is_owner else 401
            )
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif path.startswith("/upload/"):
            hub.uploads[path.removeprefix("/upload/")] = content
            self.answer({})
        elif path == "/api/repos/create":
            self.create(json.loads(content), is_owner)
        else:
            self.answer_about_a_model(path, content, is_owner)

    def create(self, wanted: dict[str, Any], is_owner: bool) -> None:
        name = f"{wanted.get('organization') or OWNER}/{wanted['name']}"
        if not is_owner or not name.startswith(f"{OWNER}/"):
            self.answer({"error": "You don't have the rights to create a model here"}, 403)
            return
        code = 409 if name in self.hub.models else 200
        self.hub.models.setdefault(name, Repository(wanted.get("visibility") == "private"))
        self.answer({"url": f"{self.hub.address}/{name}", "id": name, "name": name}, code)

    def answer_about_a_model(self, path: str, content: bytes, is_owner: bool) -> None:
        name = "/".join(path.removeprefix("/api/models/").strip("/").removesuffix(".git").split("/")[:2]).removesuffix(".git")
        found = self.hub.models.get(name)
        if found is None or (found.private and not is_owner):
            self.answer({"error": "Repository not found"}, 404 if is_owner else 401, {"X-Error-Code": "RepoNotFound"})
        elif "/preupload/" in path:
            asked = json.loads(content)["files"]
            mode = {True: "lfs", False: "regular"}
            chosen = [{"path": f["path"], "uploadMode": mode[f["path"].endswith(".safetensors")]} for f in asked]
            self.answer({"files": [{**one, "shouldIgnore": False, "oid": None} for one in chosen]})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(content)["objects"]
            links = [{**one, "actions": {"upload": {"href": f"{self.hub.address}/upload/{one['oid']}"}}} for one in objects]
            self.answer({"transfer": "basic", "objects": links})
        elif "/commit/" in path:
            for line in map(json.loads, content.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    found.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    found.files[value["path"]] = self.hub.uploads[value["oid"]]
            self.answer(
                {"success": True, "commitOid": found.commit, "commitUrl": f"{self.hub.address}/{name}/commit/{found.commit}"}
            )
        elif path.endswith("/settings"):
            found.private = json.loads(content)["visibility"] == "private"
            self.answer({})
        elif match := re.search(r"/resolve/[^/]+/(.+)", path):
            file = found.files[match[1]]
            self.answer(file, 200, {"ETag": f'"{hashlib.sha1(file).hexdigest()}"', "X-Repo-Commit": found.commit})
        elif "/tree/" in path:
            self.answer(
                [{"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()} for n, c in found.files.items()]
            )
        else:
            siblings = [{"rfilename": file} for file in found.files]
            self.answer({"id": name, "sha": found.commit, "private": found.private, "siblings": siblings})

    def answer(self, value: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for key, text in {"Content-Length": str(len(content)), "Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass
