//! Two plots as SVG, which every browser and the pages of a repository show: bars, and lines on scales that
//! multiply.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 90.0;
const BAR: f64 = 22.0;
/// How wide a letter is, of the wider ones.
const LETTER: f64 = 7.0;

/// Read on light and on dark paper.
const INK: &str = "#777";
const OURS: &str = "#c0563b";
const OTHERS: [&str; 4] = ["#8a94a6", "#5b7fa6", "#7a9a6d", "#a68a5b"];

/// Values by name, the first of them ours.
pub(super) fn bars(title: &str, unit: &str, values: &[(String, f64)]) -> String {
    let height = 40.0 + BAR * values.len() as f64 + 8.0;
    let most = values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let longest = values.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let spill = (LETTER * longest as f64 + 16.0 - LEFT).max(0.0);
    let mut svg = head(title, height, spill);
    for (row, (name, value)) in values.iter().enumerate() {
        let y = 40.0 + BAR * row as f64;
        let length = (WIDTH - LEFT - RIGHT) * value / most;
        let fill = if name.starts_with("sardonyx") { OURS } else { OTHERS[0] };
        let (name, shown) = (escaped(name), short(*value));
        let (x, end, middle) = (LEFT - 8.0, LEFT + length + 6.0, y + 14.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"16\" rx=\"2\" fill=\"{fill}\"/>\n\
             <text x=\"{end:.1}\" y=\"{middle:.0}\">{shown}{unit}</text>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// One line: its name, and its points.
pub(super) type Line = (String, Vec<(f64, f64)>);

/// Lines over sizes that grow by tens; so does the other scale.
pub(super) fn lines(title: &str, across: &str, unit: &str, lines: &[Line]) -> String {
    const HEIGHT: f64 = 300.0;
    const TOP: f64 = 40.0;
    const BOTTOM: f64 = 250.0;
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    let (x_min, x_max) = range(points().map(|(x, _)| *x));
    let (y_min, y_max) = range(points().map(|(_, y)| *y));
    let at = |value: f64, (least, most): (f64, f64), (from, to): (f64, f64)| {
        let part = (value.log10() - least.log10()) / (most.log10() - least.log10()).max(1e-9);
        from + (to - from) * part
    };
    let x_of = |x: f64| at(x, (x_min, x_max), (LEFT, WIDTH - RIGHT));
    let y_of = |y: f64| at(y, (y_min, y_max), (BOTTOM, TOP));
    let mut svg = head(title, HEIGHT, 0.0);
    for (value, is_across) in
        tens(x_min, x_max).map(|it| (it, true)).chain(tens(y_min, y_max).map(|it| (it, false)))
    {
        let (x1, y1, x2, y2, anchor, dx, dy) = match is_across {
            true => (x_of(value), BOTTOM, x_of(value), TOP, "middle", 0.0, 16.0),
            false => (LEFT, y_of(value), WIDTH - RIGHT, y_of(value), "end", -8.0, 4.0),
        };
        let (shown, unit) = (short(value), if is_across { "" } else { unit });
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.25\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{shown}{unit}</text>",
            x1 + dx,
            y1 + dy
        );
    }
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = if number == 0 { OURS } else { OTHERS[number % OTHERS.len()] };
        let path: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_of(*x), y_of(*y))).collect();
        let path = path.join(" ");
        let _ = writeln!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
        if let Some((x, y)) = points.last() {
            let (x, y, name) = (x_of(*x) + 6.0, y_of(*y) + 4.0, escaped(name));
            let _ =
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{name}</text>");
        }
    }
    let (middle, across) = (f64::midpoint(LEFT, WIDTH - RIGHT), escaped(across));
    let _ =
        writeln!(svg, "<text x=\"{middle:.0}\" y=\"288\" text-anchor=\"middle\">{across}</text>");
    svg.push_str("</svg>\n");
    svg
}

/// The beginning of a picture that is wider on the left by `spill`, for names that are long.
fn head(title: &str, height: f64, spill: f64) -> String {
    let (title, begin, width) = (escaped(title), 0.0 - spill, WIDTH + spill);
    let first = begin + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{begin:.0} 0 {width:.0} {height:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{INK}\">\n\
         <text x=\"{first:.0}\" y=\"20\" font-size=\"14\" font-weight=\"600\">{title}</text>\n"
    )
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|it| *it > 0.0);
    values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), it| (least.min(it), most.max(it)))
}

/// The powers of ten between two numbers.
fn tens(least: f64, most: f64) -> impl Iterator<Item = f64> {
    let (from, to) = (least.log10().ceil() as i32, most.log10().floor() as i32);
    (from..=to).map(|power| 10_f64.powi(power))
}

/// A number as a person says it.
pub(super) fn short(value: f64) -> String {
    let (value, letter) = match value.abs() {
        it if it >= 1e9 => (value / 1e9, "G"),
        it if it >= 1e6 => (value / 1e6, "M"),
        it if it >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        it if it >= 100.0 || value.fract() == 0.0 && it >= 1.0 => 0,
        it if it >= 10.0 => 1,
        it if it >= 0.01 => 2,
        _ => 4,
    };
    format!("{value:.digits$}{letter}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_the_largest_value() {
        let svg = bars("a < b", "/s", &[("sardonyx".into(), 200.0), ("other".into(), 50.0)]);
        assert!(svg.contains("a &lt; b") && svg.contains("width=\"400.0\""), "{svg}");
        assert!(svg.contains("width=\"100.0\"") && svg.contains(">50/s<"), "{svg}");
    }

    #[test]
    fn long_names_have_room() {
        let svg = |name: &str| bars("t", "", &[(name.to_owned(), 1.0)]);
        assert!(svg("sardonyx, durable").contains("viewBox=\"0 0 640 70\""));
        let long = svg("bare client, all in one request, 64 in flight");
        assert!(
            long.contains("viewBox=\"-181 0 821 70\"") && long.contains("<text x=\"-173\""),
            "{long}"
        );
    }

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let points = vec![(10.0, 1.0), (1000.0, 100.0)];
        let svg = lines("t", "peers", " µs", &[("x".into(), points)]);
        assert!(svg.contains("points=\"150.0,250.0 550.0,40.0\""), "{svg}");
        assert_eq!(tens(10.0, 1000.0).collect::<Vec<_>>(), [10.0, 100.0, 1000.0]);
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0012, 1.0, 12.34, 1234.0, 12_345.0, 5e6].map(short).into();
        assert_eq!(shown, ["0.0012", "1", "12.3", "1234", "12.3k", "5M"]);
    }
}
