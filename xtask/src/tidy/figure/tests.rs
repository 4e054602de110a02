use super::*;
use crate::tidy::found;

const PAGE: &str = "# Page\n\nPrinted by `cargo xtask bench x`.\nCommit: 0123abc\n\n\
                    ## Keyed by `&str`\n\n\
                    | keys | ns | 1,000/s |\n\
                    | 1      | 21.5 (21.4 to 22.0) | 302.6 |\n\
                    | 10,000 | 31.4 (30.2 to 32.8) | 8577 |\n\n\
                    ### Deeper\n\n7.5\n\n\
                    ## Other\n\n198.5 ns\n";

fn faults(text: &str) -> Vec<usize> {
    let decision = ("docs/decisions/a.md", "It takes 113 ns.");
    let files =
        [("README.md", text), ("docs/benchmarks/page.md", PAGE), decision, ("docs/b.md", "1 x")];
    found(&measured(&Tree::sample(&files))).iter().map(|(_, line)| *line).collect()
}

#[test]
fn wrong_figure_fires() {
    for bad in [
        "[40 ns](docs/benchmarks/page.md#keyed-by-str)",
        "[109,000/s](docs/benchmarks/page.md#keyed-by-str)",
        "[31.0 ns](docs/benchmarks/page.md#keyed-by-str)",
        "[3.1 ns](docs/benchmarks/page.md#keyed-by-str)",
        "[from 21 to 41 ns](docs/benchmarks/page.md#keyed-by-str)",
        "[40][str] bytes\n\n[str]: docs/benchmarks/page.md#keyed-by-str",
        "40 ns <!-- docs/benchmarks/page.md#keyed-by-str -->",
        // It is in the section, but not in the row.
        "[21.5 ns](docs/benchmarks/page.md#keyed-by-str \"| 10,000 |\")",
        "21.5 ns <!-- docs/benchmarks/page.md#keyed-by-str \"| 10,000 |\" -->",
        // An end of a range is not the figure.
        "[32.8 ns](docs/benchmarks/page.md#keyed-by-str)",
        // It is in another section.
        "[199 ns](docs/benchmarks/page.md#keyed-by-str)",
        // A decision does not say which commit was measured.
        "[113 ns](docs/decisions/a.md)",
    ] {
        assert_eq!(faults(bad), [1], "{bad}");
    }
}

#[test]
fn missing_section_row_and_page_fire() {
    for bad in [
        "[31 ns](docs/benchmarks/page.md)",
        "[31 ns](docs/benchmarks/page.md#keyed-by-u64)",
        "[31 ns](docs/benchmarks/page.md#keyed-by-str \"| 100 |\")",
        "[31 ns](docs/benchmarks/gone.md#keyed-by-str)",
        "31 ns <!-- docs/benchmarks/page.md#gone -->",
        "[31 ns][gone]",
    ] {
        assert_eq!(faults(bad), [1], "{bad}");
    }
}

#[test]
fn unlinked_figure_fires() {
    for bad in [
        "a check takes 31 ns",
        "a check takes 0.1 us, most of them",
        "1.5 µs",
        "302,600/s",
        "makes 197,000 decisions/s",
        "600,000 checks a second",
        "12 times as fast",
        "1,740 runs, 9.8 simulated hours",
        "[31 ns](docs/b.md#x)",
        "31 ns <!-- a comment -->",
    ] {
        assert_eq!(faults(&format!("\nwords\n{bad}.")), [3], "{bad}");
    }
}

#[test]
fn right_figures_are_silent() {
    for good in [
        "[31 ns](docs/benchmarks/page.md#keyed-by-str)",
        "takes [31 ns,\n21.5 ns](docs/benchmarks/page.md#keyed-by-str) here",
        "[302,600/s](docs/benchmarks/page.md#keyed-by-str), [8.6 M/s](docs/benchmarks/page.md#keyed-by-str)",
        "| [31.4][str] | [8,577,000/s][str] |\n\n[str]: docs/benchmarks/page.md#keyed-by-str \"| 10,000 |\"",
        "[7.5 ns](docs/benchmarks/page.md#keyed-by-str) [199 ns](docs/benchmarks/page.md#other)",
        "31 ns <!-- docs/benchmarks/page.md#keyed-by-str \"| 10,000 |\" -->, and so on",
        "[the page](docs/benchmarks/page.md)",
    ] {
        assert_eq!(faults(good), [0_usize; 0], "{good}");
    }
}

#[test]
fn settings_and_examples_are_silent() {
    for good in [
        "a slot of `1 us`, at most `20_000/s`\nand `50,000/s`",
        "10/s, 6,000/s, 10,000 requests a second",
        "a deadline of 50 ms, 128 bytes, 98 %",
        "```\ntakes 31 ns\n```",
        "Redis 7.0.15, `x` p99ns",
    ] {
        assert_eq!(faults(good), [0_usize; 0], "{good}");
    }
}

#[test]
fn figures_of_a_past_day_need_no_link() {
    let files = [("CHANGELOG.md", "31 ns"), ("docs/decisions/a.md", "31 ns")];
    assert!(measured(&Tree::sample(&files)).is_empty());
}

#[test]
fn page_without_command_or_commit_fires() {
    let sample = |text: &str| reproducible(&File::sample("docs/benchmarks/page.md", text)).len();
    assert_eq!(sample(PAGE), 0);
    assert_eq!(sample(&PAGE.replace("cargo xtask", "cargo")), 1);
    assert_eq!(sample(&PAGE.replace("Commit: 0123abc", "Commit: unknown")), 1);
    assert_eq!(sample("- Crates: limiter-core at commit ab09ee7, by `cargo xtask bench`"), 0);
    assert!(reproducible(&File::sample("docs/guide.md", "")).is_empty());
}
