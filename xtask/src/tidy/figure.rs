//! Measured figures in prose are linked to where they were measured, and occur there.
//!
//! A setting is written as code, `50 us`, so that it differs from a measurement. What is not caught: milliseconds,
//! bytes and percentages without a link, and a number that is not the figure meant but occurs in the same lines.

use super::link::{is_heading, resolve, slugs};
use super::{File, Finding, Tree};

/// Units of measurements, if code does not mark a setting.
const UNITS: [&str; 5] = ["ns", "us", "µs", "times as fast", "simulated hours"];

/// What may be counted in a rate.
const COUNTED: [&str; 5] = ["checks", "decisions", "requests", "calls", "admissions"];

/// A rate above this is a measurement. Examples and quotas in prose are lower, or written as code.
const LARGEST_EXAMPLE: f64 = 10_000.0;

/// The figures of these files are those of their day.
const DATED: [&str; 2] = ["CHANGELOG.md", "docs/decisions/"];

/// A figure is in a link `[31 ns](BENCHMARKS.md#keyed-by-str "10,000 | uniform")` to a benchmark page, and each number of
/// it is in the linked section: in the lines that contain the title, if there is one. Documents that rustdoc shows
/// can't link out of their crate. There, the link is a comment behind the figure:
/// `31 ns <!-- BENCHMARKS.md#keyed-by-str "10,000 | uniform" -->`, with a path from the root.
pub(super) fn measured(tree: &Tree) -> Vec<Finding> {
    let documents = tree.0.iter().filter(|file| file.extension() == "md" && !is_page(&file.path));
    documents.flat_map(|file| faults(tree, file)).collect()
}

/// Each benchmark page says which command printed it, and which commit was measured.
pub(super) fn reproducible(file: &File) -> Vec<Finding> {
    if !is_page(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !file.text.contains("by `cargo xtask ") {
        findings.push(file.finding(1, "no command; write \"Printed by `cargo xtask ...`\""));
    }
    if !file.text.to_lowercase().split("commit").skip(1).any(begins_with_commit) {
        findings.push(file.finding(1, "no commit; write \"Commit: 1234567\", the one measured"));
    }
    findings
}

fn begins_with_commit(text: &str) -> bool {
    let digits = text.trim_start_matches([':', ' ']);
    digits.bytes().take_while(u8::is_ascii_hexdigit).count() >= 7
}

fn is_page(path: &str) -> bool {
    let named = ["BENCHMARKS.md", "crates/limiter-core/docs/comparison.md"].contains(&path);
    named || path.starts_with("docs/benchmarks/") && path.ends_with(".md")
}

fn faults(tree: &Tree, file: &File) -> Vec<Finding> {
    let text = without_code(file);
    let (links, rest) = links(&text, file);
    let mut findings = Vec::new();
    for link in links {
        let numbers = numbers(link.text);
        if !numbers.is_empty() {
            let message = fault(tree, &link.path, link.anchor, link.title, &numbers);
            findings.extend(message.map(|message| file.finding(line_of(&text, link.at), message)));
        }
    }
    if !DATED.iter().any(|dated| file.path.starts_with(dated)) {
        let unlinked = numbers(&rest).into_iter().filter(|number| is_measured(&rest, number));
        findings.extend(unlinked.map(|Number { at, text, .. }| {
            let remedy = "link it to the section of a benchmark page, or write a setting as code";
            file.finding(line_of(&rest, at), format!("figure {text} without a source; {remedy}"))
        }));
    }
    findings
}

/// What is wrong with the source of numbers, if anything is.
fn fault(tree: &Tree, path: &str, anchor: &str, row: &str, sought: &[Number]) -> Option<String> {
    let Some(page) = tree.get(path) else {
        return Some(format!("there is no {path}"));
    };
    if anchor.is_empty() && is_page(path) {
        return Some(format!("link the section of {path} that has the figure"));
    }
    let Some(section) = section(page, anchor) else {
        return Some(format!("{path} has no section #{anchor}"));
    };
    let lines = section.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines: Vec<String> = lines.filter(|line| line.contains(row)).map(without_ranges).collect();
    if lines.is_empty() {
        return Some(format!("no line of {path}#{anchor} contains {row:?}"));
    }
    let found: Vec<Number> = lines.iter().flat_map(|line| numbers(line)).collect();
    let missing =
        sought.iter().find(|number| !found.iter().any(|found| found.rounds_to(number)))?;
    let values: Vec<&str> = found.iter().map(|number| number.text).collect();
    let end = if values.len() < 40 { values.join(" ") } else { "many others".to_owned() };
    Some(format!("{} is not in {path}#{anchor}, which has {end}", missing.text))
}

/// The lines below the heading with this anchor, up to the next one that is not deeper; or all, without an anchor.
fn section<'a>(page: &'a File, anchor: &str) -> Option<&'a str> {
    if anchor.is_empty() {
        return Some(&page.text);
    }
    let headings = slugs(page);
    let index = headings.iter().position(|(_, slug)| slug == anchor)?;
    let (begin, _) = *headings.get(index)?;
    let depth = |line: usize| page.text.lines().nth(line - 1).and_then(is_heading);
    let mut later = headings.iter().skip(index + 1).map(|(line, _)| *line);
    let end = later.find(|line| depth(*line) <= depth(begin)).unwrap_or(usize::MAX);
    let start = |line: usize| page.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let (begin, end): (usize, usize) = (start(begin + 1), start(end));
    page.text.get(begin..end)
}

/// The line without what is like `(21 to 24)`.
fn without_ranges(line: String) -> String {
    let mut parts = line.split('(');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((inner, rest)) if inner.contains(" to ") => kept += rest,
            _ => kept += part,
        }
    }
    kept
}

/// A number as it is written: 31.4, 1,234 or 1234.
struct Number<'a> {
    at: usize,
    text: &'a str,
    value: f64,
}

impl Number<'_> {
    /// Whether `other` is this number, rounded to at least two digits, in its unit or a thousand times of it.
    fn rounds_to(&self, other: &Number) -> bool {
        let digits = other.text.chars().filter(char::is_ascii_digit).collect::<String>();
        let digits = digits.trim_start_matches('0');
        let whole = digits.trim_end_matches('0').len();
        // The zeros behind a point were measured.
        let digits = if other.text.contains('.') { digits.len() } else { whole }.max(2);
        let scientific = |value: f64| {
            // Halves are rounded up.
            let text = format!("{:.*e}", digits - 1, value * (1.0 + 1e-9));
            let (mantissa, exponent) = text.split_once('e').unwrap_or_default();
            (mantissa.to_owned(), exponent.parse().unwrap_or(0_i32).rem_euclid(3))
        };
        scientific(self.value) == scientific(other.value)
    }
}

/// All numbers that are not part of a word, such as `p99`.
fn numbers(text: &str) -> Vec<Number<'_>> {
    let mut numbers = Vec::new();
    let mut end = 0;
    for (at, _) in text.char_indices() {
        let (before, rest) = text.split_at(at);
        if at < end || !rest.starts_with(|char: char| char.is_ascii_digit()) {
            continue;
        }
        let length = rest.find(|char: char| !char.is_ascii_digit() && !",._".contains(char));
        let number = rest.split_at(length.unwrap_or(rest.len())).0.trim_end_matches([',', '.']);
        end = at + number.len();
        let value = number.replace([',', '_'], "").parse();
        if !before.ends_with(|char: char| char.is_alphanumeric() || char == '-')
            && let Ok(value) = value
        {
            numbers.push(Number { at, text: number, value });
        }
    }
    numbers
}

/// Whether the unit behind the number makes it a measurement.
fn is_measured(text: &str, number: &Number) -> bool {
    let rest = text.get(number.at + number.text.len()..).unwrap_or_default();
    let mut words = rest.trim_start_matches(' ');
    let has_unit = UNITS.iter().any(|unit| {
        let behind = words.strip_prefix(unit);
        behind.is_some_and(|behind| !behind.starts_with(char::is_alphanumeric))
    });
    for counted in COUNTED {
        words = words.strip_prefix(counted).unwrap_or(words);
    }
    let rate = ["/s", "a second", "for each second"];
    let is_rate = rate.iter().any(|unit| words.trim_start().starts_with(unit));
    has_unit || is_rate && number.value > LARGEST_EXAMPLE
}

/// The text with spaces for code, line by line, so that places stay as they are.
fn without_code(file: &File) -> String {
    let mut in_block = false;
    let mut in_code = false;
    let mut text = String::with_capacity(file.text.len());
    for line in file.text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        // Code does not extend over paragraphs.
        in_code &= !line.trim().is_empty();
        for char in line.chars() {
            let is_mark = char == '`' && !in_block && !is_fence;
            in_code ^= is_mark;
            let blank = in_block || is_fence || in_code || is_mark;
            match char {
                '\n' => text.push('\n'),
                char if blank => (0..char.len_utf8()).for_each(|_| text.push(' ')),
                char => text.push(char),
            }
        }
    }
    text
}

/// A link, or a comment that is the link of the number before it.
struct Link<'a> {
    at: usize,
    text: &'a str,
    /// From the root.
    path: String,
    anchor: &'a str,
    title: &'a str,
}

impl<'a> Link<'a> {
    /// Reads `path#anchor "title"`, with a path from the folder of the file at `from`.
    fn new(at: usize, text: &'a str, target: &'a str, from: &str) -> Self {
        let (target, title) = target.trim().split_once(' ').unwrap_or((target.trim(), ""));
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let title = title.trim().trim_matches('"');
        Self { at, text, path: resolve(from, path), anchor, title }
    }

    /// Whether it leads to where figures are from.
    fn is_source(&self) -> bool {
        is_page(&self.path)
    }
}

/// All links and comments to sources of figures, and the text with spaces for their texts.
fn links<'a>(text: &'a str, file: &'a File) -> (Vec<Link<'a>>, String) {
    let mut links = Vec::new();
    let mut rest = text.as_bytes().to_vec();
    let mut blank = |at: usize, length: usize| {
        for byte in rest.iter_mut().skip(at).take(length).filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    };
    for (at, _) in text.match_indices('[') {
        let inner = text.get(at + 1..).unwrap_or_default();
        let Some((inner, behind)) = inner.split_once(']') else { continue };
        let target = if let Some(target) = behind.strip_prefix('(') {
            target.split_once(')').map(|(target, _)| target)
        } else {
            let name = behind.strip_prefix('[').and_then(|name| name.split_once(']'));
            name.and_then(|(name, _)| definition(file, name))
        };
        let target = target.filter(|_| !inner.contains('['));
        let link = target.map(|target| Link::new(at, inner, target, &file.path));
        if let Some(link) = link.filter(Link::is_source) {
            links.push(link);
            // Its title may have numbers, too.
            let end = behind.find([')', ']']).unwrap_or(0) + 1;
            blank(at, inner.len() + 2 + end);
        }
    }
    for (at, mark) in text.match_indices("<!-- ") {
        let (before, behind) = text.split_at(at);
        let comment = behind.get(mark.len()..).and_then(|rest| rest.split_once("-->"));
        // The link of the last number before it.
        let Some(((target, _), number)) = comment.zip(numbers(before).pop()) else { continue };
        let link = Link::new(number.at, number.text, target, "");
        if link.is_source() {
            links.push(link);
            blank(number.at, at - number.at + mark.len() + target.len());
        }
    }
    (links, String::from_utf8_lossy(&rest).into_owned())
}

/// What `[name]: target` of the file says.
fn definition<'a>(file: &'a File, name: &str) -> Option<&'a str> {
    file.text.lines().find_map(|line| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        (label == name).then_some(target)
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
