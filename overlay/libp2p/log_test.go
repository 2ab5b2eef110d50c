package libp2p

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLibrariesSpeakThroughSlog(t *testing.T) {
	var out bytes.Buffer
	handler := warnings{slog.NewTextHandler(&out, nil)}
	z := zap.New(&core{handler}).Named("dht").With(zap.String("who", "me"))
	z.Info("chatter")
	z.Warn("trouble", zap.Int("times", 3))
	slog.New(handler.WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)})).Error("worse")
	for _, want := range []string{"level=WARN", "msg=trouble", "logger=dht", "times:3", "who:me", "msg=worse", "g.n=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "chatter") {
		t.Errorf("chatter in:\n%s", &out)
	}
}
