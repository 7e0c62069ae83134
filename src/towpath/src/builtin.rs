//! The one list of filters that the shipped executable has.

/// Every filter of this project, by name.
pub fn registry() -> chain::Registry {
    chain::Registry::default()
}
