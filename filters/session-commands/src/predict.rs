//! Answers from memory.

mod entry;
mod settings;
mod store;
mod template;

pub use settings::Settings;
