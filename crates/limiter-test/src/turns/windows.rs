//! The model of fixed windows and sliding counters.

use super::{PARTS, Quota, Turns};

/// What happens to windows of other lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowsRule {
    /// A window for each length, which opens with the count of the fullest one that began within its length.
    EachLength,
    /// A charge of another length dates the whole count anew. Wrong: two quotas in turn starve.
    DatedAnew,
    /// One window, as long as the longest. Wrong: it starves the shorter quotas.
    Longest,
    /// A window for each length, which opens empty. Wrong: it exceeds the bound.
    Empty,
}

/// A key under fixed windows, or under sliding counters.
#[derive(Clone, Debug)]
pub struct Windows {
    rule: WindowsRule,
    fades: bool,
    windows: Vec<Window>,
    /// The moments and costs of all charges.
    charges: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    length: u64,
    current: u64,
    previous: u64,
}

impl Window {
    fn at(mut self, now: u64, fades: bool) -> Option<Self> {
        if fades && now >= self.start + self.length {
            (self.start, self.current, self.previous) = (self.start + self.length, 0, self.current);
        }
        let has_ended = now >= self.start + self.length || self.current + self.previous == 0;
        (!has_ended || self.start > now).then_some(self)
    }

    fn counted(&self, now: u64) -> u64 {
        let left = (self.start + self.length).saturating_sub(now).min(self.length);
        self.current + (self.previous * left).div_ceil(self.length)
    }
}

impl Windows {
    /// Returns a key without charges.
    #[must_use]
    pub const fn new(rule: WindowsRule, fades: bool) -> Self {
        Self { rule, fades, windows: Vec::new(), charges: Vec::new() }
    }

    fn at(&self, now: u64) -> Vec<Window> {
        self.windows.iter().filter_map(|window| window.at(now, self.fades)).collect()
    }

    /// Returns the window by which a quota decides at `now`, as it would be opened.
    fn window_of(&self, quota: Quota, now: u64) -> Window {
        let windows = self.at(now);
        let Quota { length, .. } = quota;
        let fresh = Window { start: now, length, current: 0, previous: 0 };
        let own = windows.iter().find(|window| window.length == length).copied();
        own.unwrap_or_else(|| match self.rule {
            WindowsRule::EachLength => {
                let near = windows.iter().filter(|window| window.start + length > now);
                let fullest = near.max_by_key(|window| (window.current, window.start));
                fullest.map_or(fresh, |it| Window { previous: 0, length, ..*it })
            }
            WindowsRule::DatedAnew => {
                let counted = windows.first().map_or(0, |window| window.counted(now));
                Window { current: counted, ..fresh }
            }
            WindowsRule::Longest => match windows.first() {
                Some(window) => Window { length: window.length.max(length), ..*window },
                None => fresh,
            },
            WindowsRule::Empty => fresh,
        })
    }

    fn fits(&self, quota: Quota, now: u64, cost: u64) -> bool {
        let have_begun = self.windows.iter().all(|window| window.start <= now);
        have_begun && self.window_of(quota, now).counted(now) + cost <= quota.limit
    }
}

impl Turns for Windows {
    fn take(&mut self, now: u64, quota: Quota, cost: u64, within: u64) -> Option<u64> {
        let has_others = self.at(now).iter().any(|window| window.length != quota.length);
        let within = if has_others { 0 } else { within };
        let at = (now..=now + within).find(|at| self.fits(quota, *at, cost))?;
        let mut own = self.window_of(quota, at);
        own.current += cost;
        let is_one = matches!(self.rule, WindowsRule::DatedAnew | WindowsRule::Longest);
        self.windows = self.at(at);
        self.windows.retain(|window| !is_one && window.length != own.length);
        self.windows.iter_mut().for_each(|window| window.current += cost);
        self.windows.push(own);
        self.charges.push((at, cost));
        Some(at * PARTS)
    }

    fn refund(&mut self, now: u64, charge: usize, permits: u64) -> u64 {
        let (at, cost) = self.charges[charge];
        self.windows = self.at(now);
        let mut counts: Vec<&mut u64> = Vec::new();
        for window in &mut self.windows {
            if (window.start..window.start + window.length).contains(&at) {
                counts.push(&mut window.current);
            } else if at < window.start && at + window.length >= window.start {
                counts.push(&mut window.previous);
            }
        }
        if now < at && counts.iter().any(|count| **count < cost) {
            return 0;
        }
        let back = counts.iter().map(|count| permits.min(**count)).max().unwrap_or(0);
        counts.into_iter().for_each(|count| *count -= permits.min(*count));
        back
    }
}
