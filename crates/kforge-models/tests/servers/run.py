"""Starts two servers that are not ours, on loopback, and runs a command against them.

`transformers serve` answers with a tiny model of random weights that is made here, and litellm's proxy stands before it: it
speaks TLS, checks a key, translates OpenAI's, Anthropic's and Google's formats, and fails on request. Nothing is downloaded. Everything
ends after LIMIT seconds, the servers with it.

Usage: run.py FOLDER COMMAND...   (FOLDER keeps the model and the logs)
"""

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType

import certificate

LIMIT = 240
START_LIMIT = 150
CONTEXT = 512
WORDS = [
    "the",
    "a",
    "kernel",
    "block",
    "warp",
    "thread",
    "tile",
    "load",
    "store",
    "sum",
    "row",
    "column",
    "fast",
    "slow",
]


def make_model(folder: Path) -> None:
    """A Llama of two layers that says words in a fixed, senseless order."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "<bos>", "<eos>"]
    vocabulary = {word: index for index, word in enumerate(special + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=CONTEXT,
    )
    fast.chat_template = "<bos>{% for message in messages %}{{ message['content'] }} {% endfor %}"
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=16, suppress_tokens=[0, 1, 2, 3], pad_token_id=0, bos_token_id=2, eos_token_id=3
    )
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def proxy_config(tiny: str, upstream: int, key: str) -> dict[str, object]:
    """litellm reads YAML, of which JSON is a part."""
    mocks = {
        "mock": "hello from a mock",
        "limited": "litellm.RateLimitError",
        "too-long": "litellm.ContextWindowExceededError",
        "broken": "litellm.InternalServerError",
    }
    real = {"model": f"openai/{tiny}", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    # transformers' own /responses writes times that the proxy does not take; through this name the proxy asks for a chat.
    bridged = {**real, "model": f"lm_studio/{tiny}"}
    once = {"model": "openai/once", "api_key": "none", "mock_response": "hello once", "rpm": 1}
    entries: list[dict[str, object]] = [
        {"model_name": "tiny", "litellm_params": real},
        {"model_name": "bridged", "litellm_params": bridged},
        {"model_name": "once", "litellm_params": once},
    ]
    for name, response in mocks.items():
        params = {"model": f"openai/{name}", "api_key": "none", "mock_response": response}
        entries.append({"model_name": name, "litellm_params": params})
    checks = ["enforce_model_rate_limits"]
    return {
        "model_list": entries,
        "general_settings": {"master_key": key},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True, "optional_pre_call_checks": checks},
        "litellm_settings": {"num_retries": 0, "telemetry": False},
    }


class Servers:
    """The processes, each in a group of its own so that its children end with it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, argv: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        self.processes.append((name, process))

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """The command itself, in a group of its own too: what it starts ends with it."""
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        self.processes.append((command[0], process))
        return process.wait()

    def wait(self, url: str, deadline: float, authority: Path) -> None:
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
        while time.monotonic() < deadline:
            for name, process in self.processes:
                if process.poll() is not None:
                    sys.exit(f"error: {name} ended with {process.returncode}; see {self.folder / name}.log")
            try:
                with opener.open(url, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        sys.exit(f"error: nothing answers at {url} after {START_LIMIT} s; see the logs in {self.folder}")

    def stop(self) -> None:
        for sign, grace in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            for _, process in self.processes:
                try:
                    os.killpg(process.pid, sign)
                except ProcessLookupError:
                    continue
            for _, process in self.processes:
                try:
                    process.wait(grace)
                except subprocess.TimeoutExpired:
                    continue


def give_up(_signal: int, _frame: FrameType | None) -> None:
    sys.exit("error: ended from outside, or after its time limit")


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    command = sys.argv[2:]
    tiny = folder / "tiny-model"
    if not (tiny / "model.safetensors").exists():
        make_model(tiny)
    upstream, proxy = free_port(), free_port()
    key = f"sk-{secrets.token_hex(16)}"
    config = folder / "litellm.json"
    config.write_text(json.dumps(proxy_config(str(tiny), upstream, key), indent=2))
    config.chmod(0o600)
    authority, chain, secret = certificate.make(folder)
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "NO_PROXY": "127.0.0.1,localhost",
        "OMP_NUM_THREADS": "1",
    }
    for name in ("DATABASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        environment.pop(name, None)
    signal.signal(signal.SIGTERM, give_up)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT)
    servers = Servers(folder, environment)
    scripts = Path(sys.executable).parent
    try:
        listen = ["--host", "127.0.0.1", "--port"]
        serve = ["serve", str(tiny), "--device", "cpu", *listen, str(upstream)]
        servers.start("transformers", [str(scripts / "transformers"), *serve])
        tls = ["--ssl_certfile_path", str(chain), "--ssl_keyfile_path", str(secret)]
        servers.start("litellm", [str(scripts / "litellm"), "--config", str(config), *tls, *listen, str(proxy)])
        deadline = time.monotonic() + START_LIMIT
        servers.wait(f"http://127.0.0.1:{upstream}/health", deadline, authority)
        servers.wait(f"https://127.0.0.1:{proxy}/health/liveliness", deadline, authority)
        addresses = {
            "KFORGE_TEST_UPSTREAM": f"http://127.0.0.1:{upstream}/v1",
            "KFORGE_TEST_UPSTREAM_MODEL": str(tiny),
            "KFORGE_TEST_PROXY": f"https://127.0.0.1:{proxy}",
            "KFORGE_TEST_PROXY_KEY": key,
            "SSL_CERT_FILE": str(authority),
        }
        return servers.run(command, {**os.environ, **addresses})
    finally:
        signal.alarm(0)
        servers.stop()


if __name__ == "__main__":
    sys.exit(main())
