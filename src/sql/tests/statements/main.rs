//! What statements are, checked row by row and by properties.

mod classes;
mod properties;
mod spell;
mod tokens;
