//! What happens to keys for which the table is full.

/// What happens to a new key while the table has no free slot for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It is refused until the first of its slots is free: the default, because no flood of keys gets
    /// anything by it.
    #[default]
    Refuse,
    /// It is admitted and not counted, so its limit does not hold.
    Admit,
}
