"""Plays the rules of delivery on the built binary, draws what happened and holds it against the rules.

    python3 tests/timelines [--scale N] [WORD]

All scenarios, or those with the word in their names. It takes half a minute, since an hour passes in 30 s;
with a smaller --scale it takes longer. Needs `cargo build` and nothing else. The exit code is 1 if anything
was otherwise than expected.
"""

import argparse
import concurrent.futures
import sys

from scenarios import all_scenarios
from stage import Appliance

SCALE = 120
# In the manner of Azure, what falls due during a probation must be looked at before that is over: slower, so
# that a busy machine manages.
SLOWER = {"hold": 1, "azure": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=SCALE, help=f"how many times faster time passes ({SCALE})")
    parser.add_argument("word", nargs="?", default="")
    arguments = parser.parse_args()
    chosen = [scenario for scenario in all_scenarios() if arguments.word in scenario.name]
    if not chosen:
        sys.exit(f"no scenario has {arguments.word!r} in its name")
    appliances = {}
    try:
        for mode in sorted({scenario.mode for scenario in chosen}):
            appliances[mode] = Appliance(max(1, arguments.scale // SLOWER[mode]), mode)
        play(chosen, appliances)
    finally:
        for appliance in appliances.values():
            appliance.stop()
    wrong = [scenario.name for scenario in chosen if not tell(scenario)]
    print(f"\n{len(chosen) - len(wrong)} of {len(chosen)} scenarios went as expected")
    for name in wrong:
        print(f"otherwise: {name}")
    sys.exit(1 if wrong else 0)


def play(scenarios, appliances):
    """Plays them all at once, and says which are over."""
    with concurrent.futures.ThreadPoolExecutor(len(scenarios)) as pool:
        playing = {
            pool.submit(scenario.play, appliances[scenario.mode], number): scenario
            for number, scenario in enumerate(scenarios, start=1)
        }
        for count, over in enumerate(concurrent.futures.as_completed(playing), start=1):
            over.result()
            print(f"{count:>3} of {len(scenarios)} played: {playing[over].name}", flush=True)


def tell(scenario):
    """Draws one scenario; whether it went as expected."""
    faults = scenario.all_faults()
    print(f"\n{'FAILED' if faults else 'ok    '} {scenario.name}")
    for line in scenario.notes:
        print(line)
    for timeline in scenario.timelines:
        if len(scenario.timelines) > 1:
            print(f"  {timeline.name}")
        print("\n".join(timeline.draw()))
    for fault in faults:
        print(f"  !! {fault}")
    return not faults


main()
