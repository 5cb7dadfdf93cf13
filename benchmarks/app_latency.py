"""How long from a move of a slider to the picture, in a browser?

The page is served in a process of its own and opened in headless Chromium. A slider is moved to
another stop; the time ends when the browser has drawn the bars of the new best plans: two frames
after they have come. It is asked of the tab of times, at several questions. Beside it: the time to
open the page, and the same while the slider is dragged without a stop.

Run: ``python benchmarks/app_latency.py``; it needs the extra ``app``, playwright and chromium. The
last line is JSON.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

from playwright.sync_api import sync_playwright

SLIDERS = ("system.hbm_bandwidth", "system.matrix_flops", "system.slow_bandwidth")
QUESTIONS = {
    "llama3-70b on 256": "",
    "llama3.1-405b on 2,048": "model=llama3.1-405b&gpus=2048&batch=2048&",
}
MOVE = """
async ([slider, moves, pause]) => {
  const deep = (root, sought) => {
    const found = root.querySelector(sought);
    if (found) return found;
    for (const each of root.querySelectorAll("*")) {
      const inner = each.shadowRoot && deep(each.shadowRoot, sought);
      if (inner) return inner;
    }
    return null;
  };
  const control = deep(document, "#" + CSS.escape("in-" + slider));
  const models = Bokeh.documents.flatMap((one) => [...one._all_models.values()]);
  const bars = models.find((model) => model.name === "bars");
  const frame = () => new Promise(requestAnimationFrame);
  const middle = Math.round(control.max / 2), times = [];
  for (let k = 0; k < moves; k++) {
    const drawn = new Promise((done) => {
      const heard = () => { bars.properties.data.change.disconnect(heard); done(); };
      bars.properties.data.change.connect(heard);
    });
    const begun = performance.now();
    control.value = middle - 3 + ((3 * k) % 7) ;
    control.dispatchEvent(new Event("input"));
    await Promise.race([drawn, new Promise((_, fail) => setTimeout(fail, 20000, "no picture"))]);
    await frame();
    await frame();
    times.push(performance.now() - begun);
    await new Promise((done) => setTimeout(done, pause));
  }
  return times;
}
"""


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def served(port: int) -> Any:
    """Return the process that serves the page, once it answers."""
    line = [sys.executable, "-m", "jaxroof", "app", "--port", str(port)]
    process = subprocess.Popen(line, env=os.environ.copy(), stdout=subprocess.DEVNULL)
    for _ in range(240):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.25)
    process.kill()
    raise SystemExit("the page did not start")


def percentiles(times: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {
        "p50": round(statistics.median(times), 1),
        "p95": round(statistics.quantiles(times, n=20)[-1], 1),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--moves", type=int, default=40)
    options.add_argument("--chromium", default=shutil.which("chromium"))
    asked = options.parse_args()
    port = free_port()
    process = served(port)
    found: dict[str, Any] = {"unit": "ms", "moves": asked.moves}
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
            for name, question in QUESTIONS.items():
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                begun = time.perf_counter()
                page.goto(f"http://127.0.0.1:{port}/?{question}tab=time")
                page.wait_for_selector(".headline h2", timeout=60_000)
                opened = 1e3 * (time.perf_counter() - begun)
                page.wait_for_timeout(1500)
                each = {"opened": round(opened)}
                for slider in SLIDERS:
                    page.evaluate(MOVE, [slider, 7, 50])  # the lists of plans are made once
                    times = page.evaluate(MOVE, [slider, asked.moves, 120])
                    each[slider] = percentiles(times)
                    told = ", ".join(f"{k} {v:.0f} ms" for k, v in each[slider].items())
                    print(f"{name:28} {slider:24} {told}")
                found[name] = each
                page.close()
            browser.close()
    finally:
        process.terminate()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
