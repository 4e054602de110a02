//! The playground, in a browser.

use limiter_core::Algorithm;

use crate::{browser::Browser, counts, start};

#[test]
fn the_page_counts_what_the_server_counts() {
    let program = start();
    let mut page = Browser::open(&format!("http://{}/", program.address()));
    page.wait_until("document.getElementById('limit')?.textContent === '10/min'");

    // The limit of the form is shown before it is in force.
    assert_eq!(page.text("next"), "20/5s by gcra");
    page.fill("burst", "40");
    assert_eq!(page.text("next"), "20/5s burst 40 by gcra");
    page.fill("algorithm", "sub-windows loose");
    assert_eq!(page.text("next"), "20/5s by sub-windows 10 slots loose");
    assert_eq!(page.text("limit"), "10/min");
    page.fill("algorithm", "gcra");

    // An invalid limit is reported, and no traffic starts.
    page.fill("permits", "0");
    page.click("toggle");
    page.wait_until("!document.getElementById('error').hidden");
    assert_eq!(page.text("error"), "invalid limit \"0/5s by gcra\": permits must be at least 1");
    assert_eq!(page.text("toggle"), "Start");

    page.fill("algorithm", "sliding-log");
    page.fill("permits", "15");
    page.fill("rate", "30");
    page.fill("pattern", "random");
    assert_eq!(page.text("next"), "15/5s by sliding-log");
    start_traffic(&mut page, "15/5s by sliding-log");
    assert_eq!(page.eval("document.getElementById('next-note').hidden"), true);
    let refused = "Number(document.getElementById('refused').textContent)";
    page.wait_until(&format!("{refused} >= 100"));
    page.screenshot("playground-light.png", 1280, "light");
    page.screenshot("playground-dark.png", 1280, "dark");
    page.screenshot("playground-narrow.png", 390, "light");
    // Nothing is cut off beside the narrow page.
    assert_eq!(page.eval("document.documentElement.scrollWidth <= innerWidth"), true);
    page.click("toggle");
    // The server's counts have arrived, and nothing is in flight.
    page.wait_until("document.getElementById('server').textContent.includes('as this page has')");

    let [sent, admitted, delayed, refused] =
        ["sent", "admitted", "delayed", "refused"].map(|id| page.number(id));
    assert_eq!(sent, admitted + refused);
    assert_eq!(delayed, 0);
    let counts = counts(&program);
    assert_eq!(
        [&counts["outcomes"]["allowed"], &counts["outcomes"]["denied"]],
        [admitted, refused]
    );

    // The subject refused most is in the table, with its count.
    let most = &counts["refused_most"][0];
    let row =
        format!("{}{}{}", most["subject"].as_str().unwrap(), most["refusals"], most["overcount"]);
    assert!(page.text("most").starts_with(&row), "{row}: {}", page.text("most"));
    let refusal = page.text("refusal");
    for field in [
        "HTTP/1.1 429 Too Many Requests",
        "Retry-After: ",
        "RateLimit: \"playground\";r=0;t=",
        "RateLimit-Policy: \"playground\";q=15;w=5",
    ] {
        assert!(refusal.contains(field), "no {field} in {refusal}");
    }
}

#[test]
fn the_page_shows_the_delays_of_a_queue() {
    let program = start();
    let mut page = Browser::open(&format!("http://{}/", program.address()));
    page.wait_until("document.getElementById('limit')?.textContent === '10/min'");
    page.fill("algorithm", "leaky-queue");
    page.fill("permits", "4");
    page.fill("window", "1s");
    page.fill("burst", "1");
    page.fill("depth", "2");
    page.fill("subjects", "1");
    page.fill("pattern", "burst");
    start_traffic(&mut page, "4/s burst 1 by leaky-queue depth 2");
    let count = |id: &str| format!("Number(document.getElementById('{id}').textContent)");
    page.wait_until(&format!("{} >= 2 && {} >= 2", count("delayed"), count("refused")));
    page.screenshot("playground-queue.png", 1280, "dark");
    page.click("toggle");
    page.wait_until("document.getElementById('server').textContent.includes('as this page has')");
    let outcomes = counts(&program)["outcomes"].clone();
    let numbers = ["admitted", "delayed", "refused"].map(|id| page.number(id));
    assert_eq!(
        ["allowed", "delayed", "denied"].map(|name| outcomes[name].as_u64().unwrap()),
        numbers
    );
}

#[test]
fn every_algorithm_of_the_page_limits() {
    let program = start();
    let mut page = Browser::open(&format!("http://{}/", program.address()));
    page.wait_until("document.getElementById('limit')?.textContent === '10/min'");
    page.fill("permits", "20");
    page.fill("window", "1d");
    page.fill("rate", "50");
    page.fill("subjects", "1");
    for (value, limit) in [
        ("gcra", "20/d"),
        ("fixed-window", "20/d by fixed-window"),
        ("aligned-window", "20/d by aligned-window"),
        ("sub-windows", "20/d by sub-windows 10 slots"),
        ("sub-windows loose", "20/d by sub-windows 10 slots loose"),
        ("sub-windows paced", "20/d by sub-windows 10 slots paced"),
        ("sliding-counter", "20/d by sliding-counter"),
        ("sliding-log", "20/d by sliding-log"),
    ] {
        page.fill("algorithm", value);
        start_traffic(&mut page, limit);
        page.wait_until("Number(document.getElementById('refused').textContent) >= 1");
        page.click("toggle");
        page.wait_until("document.getElementById('toggle').textContent === 'Start'");
        assert_eq!(page.text("error"), "");
    }
    let options = "[...document.getElementById('algorithm').options].map(it => it.value).join()";
    let options = page.eval(options);
    for algorithm in Algorithm::one_of_each() {
        let (text, options) = (algorithm.to_string(), options.as_str().unwrap());
        let name = text.split(' ').next().unwrap();
        assert!(options.contains(name), "the menu {options} lacks {name}");
    }
}

/// Clicks on Start, and waits until this limit is in force.
fn start_traffic(page: &mut Browser, limit: &str) {
    page.click("toggle");
    page.wait_until("document.getElementById('toggle').textContent === 'Stop'");
    assert_eq!(page.text("limit"), limit);
}
