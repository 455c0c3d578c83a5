"""A headless Chromium that opens a page, runs a script in it, and says what the script found."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_LISTEN = """<script>
window.complaints = [];
addEventListener("error", (event) => complaints.push(String(event.message)));
for (const level of ["error", "warn"]) console[level] = (...words) => complaints.push(words.join(" "));
</script>"""
_TELL = """<script>
addEventListener("load", () => {
  let found = null;
  try { found = (() => { %s })(); } catch (error) { complaints.push(String(error)); }
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify({ found, complaints });
  document.body.append(told);
});
</script>"""


def run_in_page(page: str, script: str, folder: Path) -> Any:
    """What the body of a function returns that runs in the page once it is loaded; the page may not complain."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is installed: pages are not opened")
    path = folder / "page.html"
    told = page.replace("<head>", f"<head>{_LISTEN}", 1).replace("</body>", f"{_TELL % script}</body>", 1)
    path.write_text(told, encoding="utf-8")
    # The profile of a browser that somebody uses stays out of it; no network: whatever is loaded would fail.
    arguments = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"),
        *("--proxy-server=127.0.0.1:9", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000"),
    ]
    ran = subprocess.run([program, *arguments, path.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    answer = re.search(r'<pre id="told">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert answer is not None, ran.stderr[-2000:]
    document = json.loads(html.unescape(answer[1]))
    assert document["complaints"] == []
    return document["found"]
