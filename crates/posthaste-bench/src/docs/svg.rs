//! A small writer of SVG: shapes and words with explicit colours, no scripts, no fonts from elsewhere.

/// For people whose viewer has none of the first ones, too.
const FONTS: &str = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif";

/// How wide a letter is, as a share of the size: about as in the widest of the fonts above.
fn width_of(letter: char) -> f64 {
    match letter {
        ' ' | '.' | ',' | ':' | ';' | '(' | ')' | '\'' | '|' | 'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' => {
            0.39
        }
        'm' | 'w' | 'M' | 'W' | '%' | '=' | '+' => 0.9,
        letter if letter.is_uppercase() => 0.7,
        _ => 0.62,
    }
}

/// How words look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Face {
    pub(super) size: f64,
    pub(super) colour: &'static str,
    pub(super) bold: bool,
}

impl Face {
    /// About how wide the words become; rather too much than too little.
    pub(super) fn width(self, words: &str) -> f64 {
        words.chars().map(width_of).sum::<f64>() * self.size * if self.bold { 1.1 } else { 1.0 }
    }

    /// The words, cut off where they would become wider.
    pub(super) fn fit(self, words: &str, width: f64) -> String {
        if self.width(words) <= width {
            return words.to_owned();
        }
        let mut fitting = words.to_owned();
        while !fitting.is_empty() && self.width(&fitting) + self.width("…") > width {
            fitting.pop();
        }
        fitting.trim_end().to_owned() + "…"
    }

    /// The words in lines that are not wider. A space that does not break stays one.
    pub(super) fn wrap(self, words: &str, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in words.split(' ') {
            match lines.last_mut() {
                Some(line) if self.width(line) + self.width(word) + self.width(" ") <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

/// On which side of a place words stand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Left,
    Middle,
    Right,
}

/// A drawing, top down.
#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    /// Words beside a place, on this base line, in front of whatever line goes through.
    pub(super) fn words(&mut self, (x, y): (f64, f64), side: Side, face: Face, words: &str) {
        let anchor = match side {
            Side::Left => "end",
            Side::Middle => "middle",
            Side::Right => "start",
        };
        let weight = if face.bold { " font-weight=\"600\"" } else { "" };
        let Face { size, colour, .. } = face;
        let halo = "stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"";
        self.add(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\"{weight} {halo}>\
             {}</text>",
            escaped(words)
        ));
    }

    /// A rectangle of one colour; `look` are further attributes.
    pub(super) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: &str,
        look: &str,
    ) {
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"{look}/>"
        ));
    }

    /// A line; `look` are further attributes.
    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, look: &str) {
        self.add(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"{look}/>"
        ));
    }

    /// A circle with a rim.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, fill: &str, rim: &str) {
        self.add(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{rim}\" stroke-width=\"2\"/>"
        ));
    }

    fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// The whole file, on a white card that can be read on any background. `alternative` says in words what is seen.
    pub(super) fn finish(self, (width, height): (f64, f64), title: &str, alternative: &str) -> String {
        let (title, alternative, body) = (escaped(title), escaped(alternative), self.body);
        let (inner_width, inner_height) = (width - 1.0, height - 1.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-labelledby=\"title words\" font-family=\"{FONTS}\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"words\">{alternative}</desc>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"8\" fill=\"#ffffff\" \
             stroke=\"#d5dae0\"/>\n{body}</svg>\n"
        )
    }
}

/// As text or as the value of an attribute.
pub(super) fn escaped(words: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() => " ".to_owned(),
        c => c.to_string(),
    };
    words.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: Face = Face { size: 10.0, colour: "#000000", bold: false };

    #[test]
    fn words_cannot_become_elements() {
        let mut svg = Svg::default();
        svg.words((1.0, 2.0), Side::Left, FACE, "a < b & \"c\"\u{1b}</text><script>");
        let file = svg.finish((10.0, 10.0), "<title>", "x && y");
        assert!(file.contains(">a &lt; b &amp; &quot;c&quot; &lt;/text&gt;&lt;script&gt;</text>"), "{file}");
        assert!(file.contains("<title id=\"title\">&lt;title&gt;</title>"), "{file}");
        assert!(file.contains(">x &amp;&amp; y</desc>") && !file.contains("<script"), "{file}");
    }

    #[test]
    fn long_words_are_cut_or_wrapped() {
        let width = FACE.width("1234567");
        assert_eq!(FACE.fit("1234567", width), "1234567");
        assert_eq!(FACE.fit("12345 789", width), "12345…");
        assert_eq!(FACE.wrap("123 567 89 1\u{a0}2", width), ["123 567", "89 1\u{a0}2"]);
    }
}
