//! What can be wrong with a machine.

/// A machine that cannot be read, changed or priced. Every message names the file, the field, what it is and what was
/// expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// Not TOML, or not the form of a machine file.
    #[error("machine `{file}`: {message}")]
    Toml {
        /// Name or path of the machine file.
        file: String,
        /// The parser's words, with line and column.
        message: String,
    },
    /// A field whose value breaks the model.
    #[error("machine `{file}`: field `{field}` is {found}: expected {expected}")]
    Field {
        /// Name or path of the machine file.
        file: String,
        /// Dotted path of the field.
        field: String,
        /// Its value.
        found: String,
        /// What the model allows.
        expected: String,
    },
    /// An override (`--set`) that does not apply.
    #[error("machine `{file}`: cannot set `{setting}`: {message}")]
    Setting {
        /// Name or path of the machine file.
        file: String,
        /// The override as given.
        setting: String,
        /// Why not, and what to write instead.
        message: String,
    },
}
