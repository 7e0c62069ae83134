//! The one list of filters that the shipped executable has.

use chain::Registry;

/// Every filter of this project, by name. Add yours with [`Registry::with`] or
/// [`Registry::with_layer`].
pub fn registry() -> Registry {
    Registry::default()
        .with::<parse::Parse>()
        .with::<rules::Factory>()
        .with::<hints::Factory>()
        .with::<sticky::Factory>()
        .with::<session_commands::Factory>()
        .with::<catch_up::Factory>()
        .with::<fast_forward::Factory>()
        .with::<cache::Factory>()
        .with::<route::Factory>()
}
