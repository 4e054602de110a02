//! Worlds that are wrong on purpose, which show that the auditor can fail.

use limiter_redis::scripts;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A line of a script is another one.
    Script(&'static Line),
    /// The client sends a call again after its reply was lost, although it was executed.
    SendsAgain,
    /// The clock of a stopped process stands still, and nobody knows. So it spends leases and holds permits after their end.
    ClockStandsStill,
    /// Every fiftieth sleep of a limiter never ends, so that a waiter is forgotten.
    ForgetsSleeps,
    /// A process that has lost its connection gets no other one.
    NeverReconnects,
}

/// A part of a script, and what stands in its place.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    name: &'static str,
    script: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const LINES: [Line; 6] = [
    Line {
        name: "refunds-what-has-drained",
        script: "refund",
        right: "local drained = now < at and 0 or",
        wrong: "local drained = 0 and 0 or",
    },
    Line {
        name: "refunds-behind-reservations",
        script: "refund",
        right: "math.min(increment * permits, most) - behind)",
        wrong: "math.min(increment * permits, most))",
    },
    Line {
        name: "charges-leases-for-their-start",
        script: "lease",
        right: "local base = math.max(debt, length)",
        wrong: "local base = debt",
    },
    Line {
        name: "forgets-windows-before",
        script: "window",
        right: "window_text(kind, length, present, taken, fading)",
        wrong: "window_text(kind, length, present, taken, 0)",
    },
    Line {
        name: "permits-have-no-expiry",
        script: "enter",
        right: "local expires = not expires_later and redis.pcall('PEXPIRE', key, lasts)",
        wrong: "local expires = nil",
    },
    Line {
        name: "renewals-forget-expiry",
        script: "renew",
        right: "redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), lasts))",
        wrong: "",
    },
];

impl Wrong {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let others =
            [Self::SendsAgain, Self::ClockStandsStill, Self::ForgetsSleeps, Self::NeverReconnects];
        LINES.iter().map(Self::Script).chain(others)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Script(line) => line.name,
            Self::SendsAgain => "sends-again",
            Self::ClockStandsStill => "clock-stands-still",
            Self::ForgetsSleeps => "forgets-sleeps",
            Self::NeverReconnects => "never-reconnects",
        }
    }

    /// Returns the call of a script with its wrong line, `None` if it is right.
    pub(crate) fn in_script(self, script: &str, words: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let Self::Script(line) = self else { return None };
        if line.script != script {
            return None;
        }
        let mut words = words.to_vec();
        let [command, text, ..] = words.as_mut_slice() else { return None };
        (*command, *text) = (b"EVAL".to_vec(), line.text().into_bytes());
        Some(words)
    }
}

impl Line {
    fn text(&self) -> String {
        let right = scripts::all().find(|(name, _)| *name == self.script);
        let right = right.map_or("", |(_, text)| text);
        right.replacen(self.right, self.wrong, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_line_is_in_its_script_once() {
        for line in &LINES {
            let text = scripts::all().find(|(name, _)| *name == line.script).unwrap().1;
            assert_eq!(text.matches(line.right).count(), 1, "{}", line.name);
        }
    }
}
