//! Traits of limiters for pointers to trait objects.

/// Implements a trait for pointers to trait objects. Not for a pointer to any limiter: `check("a")` of an
/// `Arc<MemoryLimiter>` is that of the [`MemoryLimiter`](crate::MemoryLimiter), also where the trait is in scope.
macro_rules! forward {
    ($trait:ident for $($pointer:ty),*: $methods:tt) => {
        $(forward!(@ $trait, $pointer, $methods);)*
    };
    (@ $trait:ident, $pointer:ty, {
        $(fn $method:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*
    }) => {
        impl $trait for $pointer {
            $(fn $method(&self $(, $argument: $type)*) -> $result {
                (**self).$method($($argument),*)
            })*
        }
    };
}

pub(crate) use forward;
