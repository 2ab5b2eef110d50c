package libp2p

import (
	"context"
	"log/slog"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// SetLog sends the log messages of go-libp2p and kad-dht, from warnings up, to a handler instead of stderr.
// Warnings become DEBUG, because these libraries also warn of normal events, such as a known peer that has gone.
// The libraries have one logger per process, so a command calls SetLog once, before it creates its first host.
func SetLog(handler slog.Handler) error {
	quiet := warningsAsDebug{handler}
	gologshim.SetDefaultHandler(quiet)
	golog.SetPrimaryCore(&zapCore{quiet})
	return golog.SetLogLevel("*", "warn")
}

// warningsAsDebug passes errors on unchanged, and warnings as DEBUG.
type warningsAsDebug struct{ slog.Handler }

func (w warningsAsDebug) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, loweredLevel(level))
}

// Handle implements [slog.Handler].
func (w warningsAsDebug) Handle(ctx context.Context, r slog.Record) error {
	r.Level = loweredLevel(r.Level)
	return w.Handler.Handle(ctx, r)
}

// loweredLevel returns the level at which a library's message is logged.
func loweredLevel(level slog.Level) slog.Level {
	if level < slog.LevelError {
		return slog.LevelDebug
	}
	return level
}

func (w warningsAsDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningsAsDebug{w.Handler.WithAttrs(attrs)}
}

func (w warningsAsDebug) WithGroup(name string) slog.Handler {
	return warningsAsDebug{w.Handler.WithGroup(name)}
}

// zapCore is a zapcore.Core that writes to slog.
type zapCore struct{ handler slog.Handler }

func slogLevel(l zapcore.Level) slog.Level { return slog.Level(4 * l) }

func (c *zapCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{c.handler.WithAttrs([]slog.Attr{slog.Any("context", fieldMap(fields))})}
}

func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, 0)
	r.Add("logger", e.LoggerName, "fields", fieldMap(fields))
	return c.handler.Handle(context.Background(), r)
}

func (c *zapCore) Sync() error { return nil }

func fieldMap(fields []zapcore.Field) map[string]any {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	return enc.Fields
}
