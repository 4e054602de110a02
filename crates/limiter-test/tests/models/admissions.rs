//! What was admitted of a key, checked against the bound without reading the limiter's state.

/// Whole units of time. Moments are relative to now.
pub(crate) type Units = i32;

/// Permits that were admitted for one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Admission<T> {
    pub(crate) at: Units,
    /// How many of them count. Permits that were given up do not, whatever was returned, because they were not used.
    pub(crate) permits: Units,
    /// By what the number may still change, `None` if it is final.
    pub(crate) open: Option<T>,
}

/// The admissions of a key, as far as they matter to the bound of GCRA: any window admits at most a burst and what drains
/// within the window.
///
/// That is so if a debt, which admissions raise by their permits and time drains, stays within the burst.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Admissions<T> {
    /// The debt of earlier admissions at the first one of the list, or now without earlier ones.
    before: Units,
    /// By time.
    list: Vec<Admission<T>>,
}

impl<T: Copy + Ord> Admissions<T> {
    pub(crate) const fn new() -> Self {
        Self { before: 0, list: Vec::new() }
    }

    /// Returns the admissions that are not final, and their places.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, Admission<T>, T)> {
        let all = self.list.iter().enumerate();
        all.filter_map(|(place, admission)| Some((place, *admission, admission.open?)))
    }

    /// Adds permits for now or a later moment.
    pub(crate) fn add(&mut self, at: Units, permits: Units, open: Option<T>) {
        self.list.push(Admission { at, permits, open });
        self.list.sort_unstable();
    }

    /// Sets how many permits of an admission count for good.
    pub(crate) fn settle(&mut self, place: usize, permits: Units) {
        let admission = &mut self.list[place];
        (admission.permits, admission.open) = (permits, None);
    }

    /// Lets a unit of time pass. `still_open` returns by what the number of an admission may change afterwards.
    pub(crate) fn wait(&mut self, still_open: impl Fn(Admission<T>) -> Option<T>) {
        if self.list.first().is_none_or(|first| first.at > 0) {
            self.before = (self.before - 1).max(0);
        }
        for admission in &mut self.list {
            admission.at -= 1;
            admission.open = still_open(*admission);
        }
    }

    /// Replaces the oldest admissions by their debt, up to the first one that is not final, so that histories with the
    /// same future are equal. A permit adds `price` units to the debt.
    pub(crate) fn fold(&mut self, price: Units) {
        while let Some(first) =
            self.list.first().copied().filter(|it| it.open.is_none() && it.at <= 0)
        {
            self.list.remove(0);
            let until = self.list.first().map_or(0, |next| next.at.min(0));
            self.before = (self.before + first.permits * price - (until - first.at)).max(0);
        }
        self.list.retain(|admission| admission.permits > 0 || admission.open.is_some());
        self.list.sort_unstable();
    }

    /// Returns the largest debt at an admission.
    pub(crate) fn largest_debt(&self, price: Units) -> Units {
        let mut since = self.list.first().map_or(0, |first| first.at.min(0));
        let (mut debt, mut largest) = (self.before, self.before);
        for admission in &self.list {
            debt = (debt - (admission.at - since)).max(0) + admission.permits * price;
            (since, largest) = (admission.at, largest.max(debt));
        }
        largest
    }
}

/// Replacing old admissions by a debt hides none that exceeds the bound: in all schedules of a few steps, the debt finds the
/// same as a check of all windows.
#[test]
fn the_debt_finds_what_all_windows_find() {
    const STEPS: u32 = 7;
    const BURST: Units = 3;
    let mut exceeding = 0;
    for schedule in 0..5_usize.pow(STEPS) {
        let (mut folded, mut all) = (Admissions::new(), Vec::<(Units, Units)>::new());
        let mut now = 0;
        for step in 0..STEPS {
            match schedule / 5_usize.pow(step) % 5 {
                0 => {
                    now += 1;
                    folded.wait(|admission| admission.open);
                }
                1 => {
                    folded.add(0, 2, None);
                    all.push((now, 2));
                }
                2 => {
                    folded.add(2, 1, None);
                    all.push((now + 2, 1));
                }
                3 => {
                    folded.add(0, 1, Some(all.len()));
                    all.push((now, 1));
                }
                _ => {
                    let first = folded.open().next();
                    if let Some((place, _, index)) = first {
                        folded.settle(place, 0);
                        all[index].1 = 0;
                    }
                }
            }
            folded.fold(1);
            let within = |from, to| {
                let within = all.iter().filter(|(at, _)| (from..=to).contains(at));
                within.map(|(_, permits)| permits).sum::<Units>()
            };
            let ends = || all.iter().map(|(at, _)| *at);
            let mut windows = ends().flat_map(|from| ends().map(move |to| (from, to)));
            let exceeds = windows.any(|(from, to)| within(from, to) > BURST + (to - from).max(0));
            assert_eq!(folded.largest_debt(1) > BURST, exceeds, "{schedule}: {all:?}");
            if exceeds {
                exceeding += 1;
                break;
            }
        }
    }
    assert!(exceeding > 0, "no schedule exceeds the bound");
}
