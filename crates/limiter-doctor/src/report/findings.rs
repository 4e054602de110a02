//! What was found, in words.

use std::fmt;

/// The findings of a report. They print as a list, problems first.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

/// The result of one check.
#[derive(Debug)]
struct Finding {
    severity: Severity,
    server: String,
    text: String,
    advice: Option<String>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Nothing to change.
    Fine,
    /// Limits hold, but states may be lost, or checks are slower than they could be.
    Advice,
    /// Limits don't hold, or checks fail.
    Problem,
}

impl Findings {
    pub(super) fn are_healthy(&self) -> bool {
        self.0.iter().all(|finding| finding.severity < Severity::Problem)
    }

    pub(super) fn fine(&mut self, server: &str, text: impl Into<String>) {
        self.add(Severity::Fine, server, text.into(), None);
    }

    pub(super) fn advise(&mut self, server: &str, text: impl Into<String>, advice: &str) {
        self.add(Severity::Advice, server, text.into(), Some(advice));
    }

    pub(super) fn problem(&mut self, server: &str, text: impl Into<String>, advice: &str) {
        self.add(Severity::Problem, server, text.into(), Some(advice));
    }

    fn add(&mut self, severity: Severity, server: &str, text: String, advice: Option<&str>) {
        let (server, advice) = (server.to_owned(), advice.map(str::to_owned));
        self.0.push(Finding { severity, server, text, advice });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut findings: Vec<_> = self.0.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Fine => "ok     ",
            Severity::Advice => "advice ",
            Severity::Problem => "PROBLEM",
        };
        write!(f, "{mark}  {}: {}", self.server, self.text)?;
        match &self.advice {
            Some(advice) => write!(f, "\n         -> {advice}"),
            None => Ok(()),
        }
    }
}
