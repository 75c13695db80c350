"""Every slider of every explorer in a real kernel: what a move costs there, and how much it sends to the page.

A move is made as the page makes it, by a message that sets the slider's value. Its time is the kernel's own: from the
moment it says that it is busy with that message to the moment it says that it is idle again. Its bytes are all that it
sends in between, on the wire, except those two notices.
"""
from __future__ import annotations

import json
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from benchmarks.report import median_and_spread, print_table, ratios, take_turns
from benchmarks.usual_way import sliders
from posenc_lib import explorers

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
SECONDS = 60                                            # that a move may take before the kernel counts as hanging
START = """
import json
from benchmarks.usual_way import usual_way
from posenc_lib import explorers
%matplotlib inline
"""
BARE = """
import ipywidgets
bare = ipywidgets.IntSlider()
print(json.dumps(bare.model_id))
"""
SHOW = """
ours, usual = explorers.{name}().controls, usual_way(explorers.{name})
print(json.dumps([{{name: control.model_id for name, control in each.items()}} for each in (ours, usual)]))
"""


def run() -> None:
    quiet = ["--log-level=ERROR"]
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(ROOT), extra_arguments=quiet)
    try:
        execute(client, START)
        rows = [bare_row(client), *(row for name in explorers.__all__ for row in explorer_rows(client, name))]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print_table("A slider's move: time in the kernel, bytes sent to the page",
                ["explorer", "slider", "explorer's time", "interact's time", "times faster", "explorer sends",
                 "interact sends"], rows)


def bare_row(client: BlockingKernelClient) -> list[str]:
    """A slider that moves nothing: what the kernel and the widgets cost by themselves, part of every row below."""
    model = json.loads(execute(client, BARE))
    moves = [move(client, model, {"value": number}, "comm_msg") for number in range(1, ROUNDS + 1)]
    time, sent = zip(*moves, strict=True)
    return ["none", "bare slider", median_and_spread(time, "ms"), "", "", median_and_spread(sent, "kB"), ""]


def explorer_rows(client: BlockingKernelClient, name: str) -> list[list[str]]:
    ours, usual = json.loads(execute(client, SHOW.format(name=name)))
    rows = []
    for slider, states in walks(name).items():
        results = take_turns({
            "ours": lambda number, model=ours[slider], states=states: move(client, model, states[number], "comm_msg"),
            "usual": lambda number, model=usual[slider], states=states: move(client, model, states[number],
                                                                             "display_data"),
        }, ROUNDS)
        (time, sent), (usual_time, usual_sent) = (zip(*results[way], strict=True) for way in ("ours", "usual"))
        rows.append([name.removesuffix("_explorer"), slider, median_and_spread(time, "ms"),
                     median_and_spread(usual_time, "ms"), median_and_spread(ratios(usual_time, time)),
                     median_and_spread(sent, "kB"), median_and_spread(usual_sent, "kB")])
    return rows


def walks(name: str) -> dict[str, list[dict[str, object]]]:
    """For each slider what the page would set it to, one after the other, from its start upwards and back.

    Of `base` there are five values only, so that most of its moves find their heat map kept from an earlier one.
    """
    walks = {}
    for slider, control in sliders(getattr(explorers, name)()).items():
        if hasattr(control, "options"):                 # the page sets the number of the option
            key, start, low, high = "index", control.index, 0, len(control.options) - 1
        else:
            key, start, low, high = "value", control.value, control.min, control.max
        places = list(range(start + 1, high + 1) or range(low, start))
        places = places[:: max(1, len(places) // ROUNDS)]
        there_and_back = places + places[-2:0:-1] if len(places) > 1 else [*places, start]
        steps = [{key: there_and_back[number % len(there_and_back)]} for number in range(ROUNDS + 1)]
        walks[slider] = [*steps[1:], steps[0]]          # the rehearsal is number -1
    return walks


def move(client: BlockingKernelClient, model: str, state: dict[str, object], brings: str) -> tuple[float, float]:
    """Milliseconds in the kernel and kilobytes sent for one move; a message of type `brings` must be among them."""
    content = {"comm_id": model, "data": {"method": "update", "state": state, "buffer_paths": []}}
    request = client.session.msg("comm_msg", content)
    client.shell_channel.send(request)
    size, began, types = 0, None, set()
    while True:
        message, length = next_message(client)
        if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            continue
        if message["msg_type"] != "status":
            size += length
            types.add(message["msg_type"])
        elif message["content"]["execution_state"] == "busy":
            began = message["header"]["date"]
        else:
            break
    if brings not in types or "error" in types:
        raise RuntimeError(f"Setting {state} brought {sorted(types)}, and {brings} was expected.")
    return 1000 * (message["header"]["date"] - began).total_seconds(), size / 1000


def next_message(client: BlockingKernelClient) -> tuple[dict[str, object], int]:
    """What the kernel publishes next, and how many bytes it is on the wire."""
    socket = client.iopub_channel.socket
    if not socket.poll(1000 * SECONDS):
        raise TimeoutError(f"The kernel has said nothing for {SECONDS} s.")
    parts = socket.recv_multipart()
    _, signed = client.session.feed_identities(parts)
    return client.session.deserialize(signed), sum(len(part) for part in parts)


def execute(client: BlockingKernelClient, source: str) -> str:
    """Runs `source` in the kernel and returns what it printed."""
    printed, errors = [], []

    def heed(message: dict[str, object]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])
        elif message["msg_type"] == "error":
            errors.append("\n".join(message["content"]["traceback"]))

    client.execute_interactive(source, output_hook=heed, timeout=SECONDS)
    if errors:
        raise RuntimeError(errors[0])
    return "".join(printed)
