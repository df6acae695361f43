"""What became of one delivery: drawn for people, and held against what was expected.

Expectations never depend on how fast the machine is. An attempt may come later than planned by any time, but
never earlier than jitter may move it, which is a tenth. How much later it was *planned* is seen in
`nextAttemptAt`, where it was seen in time: there, only jitter is allowed.
"""

import datetime

# The grain of the clock and of durations, in real milliseconds: start, duration and plan are cut off each.
GRAIN_MS = 3
JITTER = 0.1


def millis(moment):
    """Milliseconds of an RFC 3339 moment."""
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() * 1_000


def span(seconds):
    """`1:05:00`, `2:00`, `0:10.3`."""
    tenths = round(seconds * 10)
    hours, rest = divmod(tenths, 36_000)
    minutes, rest = divmod(rest, 600)
    text = f"{minutes}:{rest // 10:02}" if not hours else f"{hours}:{minutes:02}:{rest // 10:02}"
    return text + (f".{rest % 10}" if rest % 10 else "")


class Timeline:
    """The attempts of one delivery on the simulated clock, in seconds since the publishing."""

    def __init__(self, name, delivery, scale, plans):
        self.name = name
        self.delivery = delivery
        self.scale = scale
        self.published = millis(delivery["publishedAt"])
        self.attempts = delivery["deliveryAttempts"]
        self.starts = [self.since(attempt["startedAt"]) for attempt in self.attempts]
        self.ends = [start + attempt["durationMs"] * scale / 1_000 for start, attempt in zip(self.starts, self.attempts)]
        # When the attempt after the numbered one was planned for, where that was seen.
        self.planned = {number: self.since(moment) for number, moment in plans.items()}
        self.ended = delivery["endedAt"] and self.since(delivery["endedAt"])
        self.faults = []

    def since(self, moment):
        return (millis(moment) - self.published) * self.scale / 1_000

    @property
    def grain(self):
        return GRAIN_MS * self.scale / 1_000

    def expect(self, is_so, fault):
        if not is_so:
            self.faults.append(fault)

    def expect_answers(self, answers):
        """The answers in their order: statuses, or outcomes where there was none."""
        found = [str(attempt["httpStatusCode"] or attempt["outcome"]) for attempt in self.attempts]
        self.expect(found == answers, f"answers: expected {' '.join(answers)}, not {' '.join(found)}")

    def expect_end(self, state, reason=None):
        found = (self.delivery["state"], self.delivery["deadLetterReason"])
        self.expect(found == (state, reason), f"end: expected {(state, reason)}, not {found}")

    def expect_waits(self, waits):
        """The wait after each failed attempt, in seconds; the last one may lead to the end instead."""
        for number, wait in enumerate(waits, start=1):
            if number > len(self.ends):
                self.faults.append(f"attempt {number} was not made")
                return
            self._expect_wait(number, self.ends[number - 1], wait)

    def expect_offsets(self, offsets):
        """When each attempt is due since the first one began, in seconds. At least ten seconds pass in between, however late the one before was."""
        for number, offset in enumerate(offsets, start=1):
            if number > len(self.ends):
                self.faults.append(f"attempt {number} was not made")
                return
            self._expect_wait(number, self.ends[number - 1], max(10, self.starts[0] + offset - self.ends[number - 1]))

    def expect_expiry(self, offset):
        """The end after the last attempt, in seconds since the event was published."""
        self._expect_wait(len(self.ends), self.ends[-1], offset - self.ends[-1])

    def _expect_wait(self, number, since, wait):
        """`number` is the attempt before the wait."""
        following = self.starts[number] if number < len(self.starts) else self.ended
        if following is None:
            self.faults.append(f"nothing follows attempt {number}")
            return
        waited = following - since
        self.expect(
            waited >= wait * (1 - JITTER) - self.grain,
            f"after attempt {number}: {span(waited)} is earlier than {span(wait)}",
        )
        if number in self.planned:
            planned = self.planned[number] - since
            self.expect(
                abs(planned - wait) <= wait * JITTER + self.grain,
                f"after attempt {number}: planned {span(planned)}, not {span(wait)}, a tenth more or less",
            )

    def draw(self):
        lines = []
        for number, (attempt, start, end) in enumerate(zip(self.attempts, self.starts, self.ends), start=1):
            answer = attempt["httpStatusCode"] or attempt["outcome"]
            late = attempt["lateHttpStatusCode"]
            answer = f"{answer}, late {late}" if late else str(answer)
            clock = attempt["startedAt"][11:23]
            lines.append(f"  {number:>3}. at {span(start):>11}  {clock}  {answer:<20}{self._wait(number, end)}".rstrip())
        state, reason = self.delivery["state"], self.delivery["deadLetterReason"]
        ended = f"at {span(self.ended):>11}  {self.delivery['endedAt'][11:23]}  " if self.ended is not None else ""
        lines.append(f"   => {ended}{state}{f', {reason}' if reason else ''}")
        return lines

    def _wait(self, number, end):
        following = self.starts[number] if number < len(self.starts) else None
        planned = f" planned {span(self.planned[number] - end)}" if number in self.planned else ""
        if following is None:
            return f"|{planned}" if planned else ""
        waited = following - end
        # One dash for each doubling of ten seconds.
        length = max(1, min(20, int(waited / 10).bit_length()))
        return f"|{'-' * length}>{planned} waited {span(waited)}"
