package origin

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

type file struct{ name, text string }

// archive writes a trace.
func archive(t *testing.T, files ...file) string {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: "trace/" + f.name, Size: int64(len(f.text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(f.text))
	}
	w.Close()
	z.Close()
	name := filepath.Join(t.TempDir(), "trace.tar.zst")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTracesAreRead(t *testing.T) {
	name := archive(t,
		file{"SOURCE.txt", "from somewhere"},
		file{"0001.html", "second"}, file{"0000.xml", "first"}, file{"0002.xml", "third"}, file{"0001.terms.md", "terms"},
		file{"times.csv", "file,commit_time_utc,x\n0000.xml,2026-01-01T00:00:00Z,\n0001.html,2026-01-01T01:00:00Z,\n0002.xml,2026-01-01T05:00:00Z,\n"},
	)
	all, err := Trace(name, nil)
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%s %s %s %s", s.File, s.Time.Format("15:04"), s.ContentType, s.Body))
	}
	want := "0000.xml 00:00 application/xml first\n0001.html 01:00 text/html second\n0002.xml 05:00 application/xml third"
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("%q, %v", got, err)
	}
	some, err := Trace(name, func(file string) bool { return file == "0002.xml" })
	if err != nil || len(some) != 1 || string(some[0].Body) != "third" {
		t.Errorf("%+v, %v", some, err)
	}
	holds := func(speed float64, atLeast, atMost time.Duration) (holds []time.Duration) {
		for _, s := range Compress(all, speed, atLeast, atMost) {
			holds = append(holds, s.Hold)
		}
		return holds
	}
	for _, c := range []struct{ got, want []time.Duration }{
		{holds(3600, 0, 0), []time.Duration{time.Second, 4 * time.Second, 0}},
		{holds(3600, 2*time.Second, 0), []time.Duration{2 * time.Second, 4 * time.Second, 0}},
		{holds(3600, 0, 3*time.Second), []time.Duration{time.Second, 3 * time.Second, 0}},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("held for %v, want %v", c.got, c.want)
		}
	}
}

func TestDamagedTracesAreReported(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.tar.zst")
	garbage := filepath.Join(t.TempDir(), "garbage.tar.zst")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{missing, "no such file"},
		{garbage, "magic"},
		{archive(t, file{"0000.xml", "a"}), "0000.xml has no time in times.csv"},
		{archive(t, file{"0000.xml", "a"}, file{"times.csv", "file,time\n0000.xml,noon\n"}), "times.csv"},
		{archive(t, file{"0000.xml", "a"}, file{"times.csv", "file,time\n0000.xml\n"}), "times.csv"},
	} {
		if _, err := Trace(c.name, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestRealTracesAreRead(t *testing.T) {
	const traces = "../../../../shared/data/traces"
	if _, err := os.Stat(traces); err != nil {
		t.Skipf("no real traces: %v", err)
	}
	for _, name := range []string{"gen-cursor", "calcite-news-index", "ota-demo-brevo-privacy-policy"} {
		all, err := Trace(filepath.Join(traces, name+".tar.zst"), nil)
		if err != nil || len(all) < 10 {
			t.Errorf("%s: %d snapshots, %v", name, len(all), err)
			continue
		}
		for i := 1; i < len(all); i++ {
			if all[i].Time.Before(all[i-1].Time) || len(all[i].Body) == 0 {
				t.Errorf("%s: %s at %v, %d bytes", name, all[i].File, all[i].Time, len(all[i].Body))
			}
		}
	}
}
