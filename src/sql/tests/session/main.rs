//! What texts do to their session, checked row by row and by properties.

mod parts;
mod properties;
mod spell;
mod table;
#[path = "../statements/spell.rs"]
#[expect(dead_code, reason = "readings are spelled in another way than statements")]
mod texts;
