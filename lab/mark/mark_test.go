package mark

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// Marks are judged, printed and encoded by the same rules.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		mark    Mark
		json    string
		printed string
	}{
		{AtMost("wait", "s", 1.25, 2), `{"figure":"wait","got":1.25,"unit":"s","asked":"≤ 2 s","met":true}`, "wait|1.25 s|≤ 2 s|met"},
		{AtMost("wait", "s", 2.5, 2), `{"figure":"wait","got":2.5,"unit":"s","asked":"≤ 2 s","met":false}`, "wait|2.5 s|≤ 2 s|MISSED"},
		{AtLeast("rate", "", 12345.6, 10_000), `{"figure":"rate","got":12345.6,"asked":"≥ 10000","met":true}`, "rate|12346|≥ 10000|met"},
		{Between("load", "", 0.99, 0.995, 1), `{"figure":"load","got":0.99,"asked":"0.995 … 1","met":false}`, "load|0.99|0.995 … 1|MISSED"},
		{Info("median", "s", 3), `{"figure":"median","got":3,"unit":"s","asked":"","met":null}`, "median|3 s"},
		{Zero("lost", 0), `{"figure":"lost","got":0,"asked":"≤ 0","met":true}`, "lost|0|≤ 0|met"},
		{AtMost("wait", "s", math.NaN(), 2), `{"figure":"wait","got":null,"unit":"s","asked":"≤ 2 s","met":false,"note":"unknown"}`, "wait|-|≤ 2 s|MISSED|unknown"},
		{AtMost("wait", "s", math.Inf(1), 2), `{"figure":"wait","got":null,"unit":"s","asked":"≤ 2 s","met":false,"note":"never"}`, "wait|never|≤ 2 s|MISSED|never"},
		{AtMost("of calm", "", 9, 2).Skipped("calm was not run"), `{"figure":"of calm","got":null,"asked":"≤ 2","met":null,"note":"calm was not run"}`, "of calm|-|≤ 2|skipped|calm was not run"},
		{AtMost("p99", "s", 0.5, 2).WithStretch(1), `{"figure":"p99","got":0.5,"unit":"s","asked":"≤ 2 s","stretch":"≤ 1 s","met":true}`, "p99|0.5 s|≤ 2 s|met, also the stretch target ≤ 1 s"},
		{AtMost("p99", "s", 1.5, 2).WithStretch(1), `{"figure":"p99","got":1.5,"unit":"s","asked":"≤ 2 s","stretch":"≤ 1 s","met":true}`, "p99|1.5 s|≤ 2 s|met; stretch target ≤ 1 s"},
		{NoneMissing("missing", 7, 8), `{"figure":"missing","got":1,"asked":"≤ 0","met":false}`, "missing|1|≤ 0|MISSED"},
		{NoneMissing("missing", 0, 0), `{"figure":"missing","got":null,"asked":"≤ 0","met":false,"note":"unknown"}`, "missing|-|≤ 0|MISSED|unknown"},
		{AtLeast("speed", "MB/s", 9, 20).WithoutTarget("the target is for real pages"), `{"figure":"speed","got":9,"unit":"MB/s","asked":"","met":null,"note":"the target is for real pages"}`, "speed|9 MB/s|||the target is for real pages"},
		{Info("lines", "", 18).WithNote("the paper: 17"), `{"figure":"lines","got":18,"asked":"","met":null,"note":"the paper: 17"}`, "lines|18|||the paper: 17"},
	} {
		b, err := json.Marshal(c.mark)
		if err != nil || string(b) != c.json {
			t.Errorf("%v, %s\nwant %s", err, b, c.json)
		}
		if got := printed(c.mark)[1]; got != c.printed {
			t.Errorf("%q\nwant %q", got, c.printed)
		}
	}
}

func printed(marks ...Mark) (lines []string) {
	Print(func(format string, args ...any) {
		lines = append(lines, strings.TrimRight(strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", "|"), "|"))
	}, marks)
	return lines
}

// If there are several runs, the table has a column for them.
func TestRunsArePrinted(t *testing.T) {
	marks := append(ForRun("calm", Zero("lost", 0)), ForRun("churn", Zero("lost", 1))...)
	if got := strings.Join(printed(marks...), "\n"); got != "run|figure|value|target\ncalm|lost|0|≤ 0|met\nchurn|lost|1|≤ 0|MISSED" {
		t.Error(got)
	}
	if lines := printed(); len(lines) != 0 {
		t.Errorf("no marks: %q", lines)
	}
}

// Only marks with a target count, and a skipped measurement is not a miss.
func TestErr(t *testing.T) {
	met := []Mark{Zero("lost", 0), Info("seen", "", 7), AtMost("of calm", "", 0, 1).Skipped("calm was not run")}
	if err := Err(met); err != nil {
		t.Error(err)
	}
	err := Err(append(met, Zero("twice", 1), AtMost("wait", "s", math.NaN(), 2)))
	if err == nil || err.Error() != "2 of 3 marks missed" {
		t.Error(err)
	}
}
