package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEvalDifference(t *testing.T) {
	dir := t.TempDir()
	if code, _, err := lab(t, "eval", "difference", "--data", dir); code != exitFailed || !strings.Contains(err, "with --data") {
		t.Errorf("an empty folder: exit %d, %q", code, err)
	}
	if code, _, err := lab(t, "eval", "difference", "--worst=-1"); code != exitUsage || !strings.Contains(err, "must not be negative") {
		t.Errorf("less than nothing: exit %d, %q", code, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ota_labels.csv"), []byte("trace,file,class\nota-a,0002.html,text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, err := lab(t, "eval", "difference", "--data", dir); code != exitFailed || !strings.Contains(err, "pairs.csv") {
		t.Errorf("no references: exit %d, %q", code, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pairs.csv"), []byte("trace,file,parse_ok,new,mod\nfeed,0002.xml,true,1,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, err := lab(t, "eval", "difference", "--data", dir); code != exitFailed || !strings.Contains(err, "no traces/*.tar.zst") {
		t.Errorf("tables alone: exit %d, %q", code, err)
	}
	traces := filepath.Join(dir, "traces")
	if err := os.Mkdir(traces, 0o700); err != nil {
		t.Fatal(err)
	}
	writeTrace(t, traces, "ota-a", ".html", "<p>One of many.", "<p>Two of many.")
	writeTrace(t, traces, "ota-b", ".html", "<p>One of many.", "<p>Something else.")
	writeTrace(t, traces, "feed", ".xml", `<rss version="2.0"><channel><title>A</title><item><guid>1</guid><title>One</title></item></channel></rss>`,
		`<rss version="2.0"><channel><title>A</title><item><guid>2</guid><title>Two</title></item></channel></rss>`)
	code, out, err := lab(t, "eval", "difference", "--data", dir)
	if code != exitFailed || !strings.Contains(err, "marks missed") { // there is one alarm in one pair
		t.Fatalf("exit %d, %q", code, err)
	}
	for _, want := range []string{"1 of 1", "MISSED", "false alarm: ota-b 0002.html, 2 lines", "> Something else.", "pairs of feeds with new items that are not reported  ", "0 of 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, err = lab(t, "eval", "difference", "--data", dir, "--json")
	var found struct {
		Total  map[string]*float64
		Traces []struct{ Name, Kind string }
	}
	if code != exitFailed || json.Unmarshal([]byte(out), &found) != nil || len(found.Traces) != 3 || found.Traces[2].Kind != "feed" {
		t.Fatalf("exit %d, %q, %s", code, err, out)
	}
	for name, want := range map[string]float64{"changes": 1, "found": 1, "noise_pairs": 1, "false_alarms": 1, "feed_noise_pairs": 0, "feed_false_alarms": 0, "feed_new_pairs": 1, "feed_found": 1, "apply_failures": 0} {
		if got := found.Total[name]; got == nil || *got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"wire_ratio_median", "mb_per_s_median", "worst_s"} {
		if got := found.Total[name]; got == nil || *got <= 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
