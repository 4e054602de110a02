//! The alerts' own tests, and whether the dashboard's queries are valid.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use crate::{
    figures::expressions,
    prometheus::{PROMTOOL, binary},
};

const ALERTS: &str = include_str!("../../alerts.yml");
const GUIDE: &str = include_str!("../../../../crates/limiter-redis/docs/guide/production.md");
/// Its tables have all metrics and events of the layer, by tests of limiter-tower.
const LAYER: &str = include_str!("../../../../crates/limiter-tower/docs/guide/metrics.md");
const METRICS: [&str; 2] = [LAYER, include_str!("../../README.md")];

#[test]
fn the_alerts_fire_when_their_tests_say() {
    let output = promtool(&["test", "rules", "alerts.test.yml"]);
    assert!(output.contains("SUCCESS"), "{output}");
}

#[test]
fn the_queries_of_the_dashboard_are_valid() {
    let rules: Vec<_> = expressions()
        .into_iter()
        .map(|expression| serde_json::json!({ "record": "panel", "expr": expression }))
        .collect();
    // JSON is YAML.
    let rules = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard-rules.yml");
    fs::write(&path, rules.to_string()).unwrap();
    let output = promtool(&["check", "rules", "--lint=none", path.to_str().unwrap()]);
    assert!(output.contains(&format!("SUCCESS: {} rules found", expressions().len())), "{output}");
}

#[test]
fn the_alerts_and_the_dashboard_show_all_metrics_and_no_others() {
    let documented = METRICS.iter().flat_map(|text| text.lines());
    let documented = documented.filter(|line| line.starts_with("| `ratelimit_"));
    let documented: BTreeSet<_> = documented.map(|line| line.split('`').nth(1).unwrap()).collect();
    let queries = format!("{ALERTS}{}", expressions().concat());
    let words = queries.split(|c: char| !c.is_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("ratelimit_"));
    let shown: BTreeSet<_> = names.map(|name| name.trim_end_matches("_bucket")).collect();
    assert_eq!(shown, documented);
}

#[test]
fn the_alerts_select_all_events_of_permits_and_no_others() {
    let (_, events) = LAYER.split_once("| event |").unwrap();
    let rows = events.lines().skip(1).take_while(|line| line.starts_with('|'));
    let documented: BTreeSet<_> = rows.filter_map(|line| line.split('`').nth(1)).collect();
    let selected = ALERTS.split("event=").skip(1).filter_map(|text| text.split('"').nth(1));
    let selected: BTreeSet<_> = selected.flat_map(|names| names.split('|')).collect();
    assert_eq!(selected, documented);
}

#[test]
fn the_guide_has_a_row_for_each_alert_and_for_no_other() {
    let alerts = ALERTS.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: "));
    let alerts: BTreeSet<_> = alerts.collect();
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `RateLimit"));
    // Alerts with one remedy share a row.
    let names = rows.filter_map(|line| line.split('|').nth(1)).flat_map(|cell| cell.split(','));
    let rows: BTreeSet<_> = names.map(|name| name.trim().trim_matches('`')).collect();
    assert_eq!(rows, alerts);
}

/// Runs promtool in the example's folder, and returns its output.
fn promtool(arguments: &[&str]) -> String {
    let mut command = Command::new(binary(&PROMTOOL));
    let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    println!("$ promtool {}\n{text}", arguments.join(" "));
    assert!(output.status.success(), "{text}");
    text
}
