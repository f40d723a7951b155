"""Packs the binary as a wheel: wheel.py BINARY README VERSION PLATFORM FOLDER prints the path of the wheel."""

import base64
import hashlib
import pathlib
import sys
import zipfile

binary, readme, version, platform, folder = sys.argv[1:]
info = f"longhand-{version}.dist-info"
tag = f"py3-none-{platform}"
metadata = f"""Metadata-Version: 2.1
Name: longhand
Version: {version}
Summary: An endless conversation for any LLM agent
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{pathlib.Path(readme).read_text()}"""
wheel = f"Wheel-Version: 1.0\nGenerator: longhand-xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"
files = {
    f"longhand-{version}.data/scripts/longhand": pathlib.Path(binary).read_bytes(),
    f"{info}/METADATA": metadata.encode(),
    f"{info}/WHEEL": wheel.encode(),
}


def record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


lines = "".join(record(name, data) for name, data in files.items()) + f"{info}/RECORD,,\n"
files[f"{info}/RECORD"] = lines.encode()
path = pathlib.Path(folder) / f"longhand-{version}-{tag}.whl"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in files.items():
        entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16  # pip wants a regular file
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)
print(path)
