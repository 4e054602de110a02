//! What was found, in words.

use std::fmt;

/// What [`doctor`](crate::doctor) has found: it prints as a list, what should be changed first.
#[derive(Clone, Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    severity: Severity,
    server: String,
    text: String,
    advice: Option<String>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Limits hold, but something may be lost or take longer than it has to.
    Advice,
    /// Limits don't hold, or checks fail.
    Problem,
}

impl Report {
    /// Returns all findings, in the order in which they were made.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns whether nothing was found that keeps limits from holding.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Problem)
    }

    pub(super) fn fine(&mut self, server: &str, text: impl Into<String>) {
        self.add(Severity::Fine, server, text.into(), None);
    }

    pub(super) fn advise(&mut self, server: &str, text: impl Into<String>, advice: &str) {
        self.add(Severity::Advice, server, text.into(), Some(advice.to_owned()));
    }

    pub(super) fn problem(&mut self, server: &str, text: impl Into<String>, advice: &str) {
        self.add(Severity::Problem, server, text.into(), Some(advice.to_owned()));
    }

    fn add(&mut self, severity: Severity, server: &str, text: String, advice: Option<String>) {
        self.findings.push(Finding { severity, server: server.to_owned(), text, advice });
    }
}

impl Finding {
    /// Returns how much it matters.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the address of the server that it is about, without a password.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns what was found.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what to change, if anything.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut findings: Vec<_> = self.findings.iter().collect();
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
