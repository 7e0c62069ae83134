//! What a command is: verb, class, schema change, transaction text.
