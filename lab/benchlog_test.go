package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Items that several programs publish at once are at all three real nodes, once; the peer writes as many; and the JSON object
// has the keys that scripts rely on.
func TestBenchLog(t *testing.T) {
	t.Parallel()
	code, out, err := lab(t, strings.Fields("bench log --items 60 --count 20 --writers 8 --json")...)
	if code != exitDone && !strings.Contains(err, "marks missed") { // the machine may be busy
		t.Fatalf("exit %d, %q", code, err)
	}
	var got struct {
		Runs  []map[string]any `json:"runs"`
		Wrong *int             `json:"wrong"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Runs) != 4 || got.Wrong == nil || *got.Wrong != 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for i, r := range got.Runs {
		for _, system := range []string{"ours", "peer"} {
			figures, _ := r[system].(map[string]any)
			for _, key := range strings.Fields("items_per_s p50_s p99_s most_s") {
				if figure, ok := figures[key].(float64); !ok || figure <= 0 {
					t.Errorf("no %s of %s in %v", key, system, r)
				}
			}
		}
		if before := []float64{0, 20, 60, 80}[i]; r["items_before"] != before || r["items"] != 20.0 {
			t.Errorf("measurement %d: %v", i, r)
		}
	}
}

func TestBenchLogRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--count 0", "--writers 257", "--items 100 --count 60", "--items 9000"} {
		if code, _, err := lab(t, strings.Fields("bench log "+args)...); code != exitUsage || !strings.Contains(err, "at least") {
			t.Errorf("%s: exit %d, %q", args, code, err)
		}
	}
}
