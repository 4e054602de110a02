//! Numbers and times in words.

use std::time::Duration;

/// Returns a number of permits, such as `1 permit`.
pub(crate) fn permits(number: u64) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} permit{s}")
}

/// Returns bytes as text, in which those that are not UTF-8 are escaped, such as `\xff`, and control characters, such as
/// `\x1b`, because clients choose subjects and a terminal would run them.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => text += &hex_escaped(character.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(character),
            }
        }
        text += &hex_escaped(chunk.invalid());
    }
    text
}

fn hex_escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Returns a number of bytes in the unit that suits it, such as `1.35 GiB`.
pub(crate) fn bytes(number: u64) -> String {
    let names = ["PiB", "TiB", "GiB", "MiB", "KiB"].into_iter();
    let mut units = names.zip((1..=5).rev()).map(|(name, power)| (name, 1024_u64.pow(power)));
    let Some((name, unit)) = units.find(|(_, unit)| number >= *unit) else {
        return format!("{number} bytes");
    };
    let hundredths = u128::from(number) * 100 / u128::from(unit);
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, part) => format!("{whole}.{part:02} {name}"),
    }
}

/// Returns a time in the unit that suits it, such as `5.9 s`.
pub(crate) fn time(time: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (86_400_000_000, "days"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let micros = time.as_micros();
    // From twice a unit on, so that 90 s is not 1.5 min.
    let fits = |(unit, name): &&(u128, &str)| {
        micros >= if matches!(*name, "s" | "ms") { *unit } else { 2 * unit }
    };
    match UNITS.iter().find(fits) {
        None => format!("{micros} us"),
        Some((unit, name)) => {
            let tenths = micros * 10 / unit;
            match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                tenth => format!("{}.{tenth} {name}", tenths / 10),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_escaped() {
        let bytes = b"\xc3\xa9\xff\x1b[2J\n\xc2\x9b\xc3";
        assert_eq!(text(bytes), "\u{e9}\\xff\\x1b[2J\\x0a\\xc2\\x9b\\xc3");
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        for (number, text) in [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1 KiB"),
            (1_449_551_463, "1.35 GiB"),
            (524_288_000, "500 MiB"),
            (u64::MAX, "16383.99 PiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (micros, text) in [
            (0, "0 us"),
            (999, "999 us"),
            (1_500, "1.5 ms"),
            (5_949_000, "5.9 s"),
            (90_000_000, "90 s"),
            (120_000_000, "2 min"),
            (7_200_000_000, "2 h"),
            (86_400_000_000, "24 h"),
            (864_000_000_000, "10 days"),
        ] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
        assert_eq!((permits(1), permits(2)), ("1 permit".to_owned(), "2 permits".to_owned()));
    }
}
