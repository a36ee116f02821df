//! What pages that are written by hand need.

/// The start of a page, with its title, which is plain text. Nothing in such a page runs or is loaded from anywhere,
/// whatever others chose as a name.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"><title>{title}</title>\n"
    )
}

/// Text of others as text of a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
