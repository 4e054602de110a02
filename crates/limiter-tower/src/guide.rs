//! How to use the layer.
//!
//! - [`programs`]: the eight common cases, each in a few lines.
//! - [`operation`]: shadows, samples, live changes, exemptions, failures of the store.
//! - [`testing`]: limits under a manual clock.
//! - [`metrics`]: names and labels.

macro_rules! pages {
    ($($name:ident)*) => {$(
        #[cfg_attr(
            any(feature = "axum", not(doctest)),
            doc = include_str!(concat!("../docs/", stringify!($name), ".md"))
        )]
        pub mod $name {}
    )*};
}
pages! { programs operation testing metrics }
