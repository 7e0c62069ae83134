//! Reading a file of settings.

use std::{fs::File, io::Read, path::Path};

/// The text of a file.
///
/// # Errors
///
/// The operating system's, in words, or that it is larger than `limit` bytes (a device could go on
/// for ever) or no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {limit} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}
