//! Settings that are out of their ranges.

use std::time::Duration;

use limiter_core::{Block, Blocks, ErrorKind, Policy, Quota};

use crate::memory::{MINUTE, limiter};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn errors_quote_the_value_and_say_what_to_do() {
    let (limiter, _) = limiter();
    let ten = Block::after(10);
    for (block, message) in [
        (Block::after(0), r#"invalid block "after 0": use 1 to 1000000 strikes"#),
        (Block::after(1_000_001), r#"invalid block "after 1000001": use 1 to 1000000 strikes"#),
        (
            ten.within(Duration::ZERO),
            r#"invalid block "within 0ns": use a whole number of milliseconds from 1ms to 366d"#,
        ),
        (
            ten.within(Duration::from_micros(1_500)),
            r#"invalid block "within 1.5ms": use a whole number of milliseconds from 1ms to 366d"#,
        ),
        (
            Block::after(5_001).within(Duration::from_millis(1)),
            r#"invalid block "after 5001 within 1ms": use at most 5,000 strikes a millisecond"#,
        ),
        (
            ten.lasting(367 * DAY),
            r#"invalid block "lasting 31708800s": use a whole number of milliseconds from 1ms to 366d"#,
        ),
        (
            ten.doubling(Duration::MAX),
            r#"invalid block "doubling 18446744073709551615.999999999s": use a whole number of milliseconds from 1ms to 366d"#,
        ),
        (
            ten.lasting(2 * MINUTE).doubling(MINUTE),
            r#"invalid block "lasting 120s doubling 60s": the longest block must be at least as long as the first"#,
        ),
        (
            ten.doubling(DAY).forget_after(60 * MINUTE),
            r#"invalid block "lasting 900s doubling 86400s forget_after 3600s": levels must be kept for at least the longest block; use a longer time, or shorter blocks"#,
        ),
        (
            ten.doubling(DAY).forget_after(Duration::ZERO),
            r#"invalid block "forget_after 0ns": use a whole number of milliseconds from 1ms to 366d"#,
        ),
        (
            ten.lasting(MINUTE).doubling(300 * DAY),
            r#"invalid block "lasting 60s doubling 25920000s forget_after 25920900s": all 20 levels must be forgotten within 1,830 days; use a longer first block, a shorter longest one, or forget levels earlier"#,
        ),
    ] {
        let error = Blocks::new(&limiter, &block).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidSetting, message.into()));
    }
}

#[test]
fn extremes_are_accepted() {
    let (limiter, _) = limiter();
    let millisecond = Duration::from_millis(1);
    for block in [
        Block::after(1).within(millisecond).lasting(millisecond),
        Block::after(5_000).within(millisecond).lasting(millisecond).doubling(millisecond),
        Block::after(Block::MAX_STRIKES).within(366 * DAY).lasting(Block::MAX_LENGTH),
        Block::after(1).within(366 * DAY).lasting(183 * DAY).doubling(Block::MAX_LENGTH),
        Block::after(1).lasting(millisecond).doubling(30 * DAY),
    ] {
        let blocks = Blocks::new(&limiter, &block);
        assert!(blocks.is_ok(), "{block:?}: {blocks:?}");
    }
}

#[test]
fn a_name_needs_room_for_those_of_the_states() {
    let (limiter, _) = limiter();
    let named = |length| limiter.sibling(&Policy::gcra(&"n".repeat(length), Quota::per_day(1)));
    let blocks = Blocks::new(&named(56), &Block::after(1).doubling(DAY)).unwrap();
    assert!(format!("{blocks:?}").contains(&format!("{}-strikes", "n".repeat(56))));
    let error = Blocks::new(&named(57), &Block::after(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    let message = format!(
        "invalid policy name {:?}: use at most 56 bytes for a limiter with blocks",
        "n".repeat(57)
    );
    assert_eq!(error.to_string(), message);
}
