package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// hangupEnds reports whether SIGHUP should end the program. At a terminal it does, because the signal means that
// the window was closed, unless nohup ignores it. Elsewhere, as in a service, SIGHUP conventionally asks a daemon
// to reload its settings.
func hangupEnds() bool {
	_, terminal := terminalWidth(os.Stdin)
	return terminal && !signal.Ignored(syscall.SIGHUP)
}

// ignoreHangups makes the node continue when a SIGHUP arrives that should not end it. The node cannot change its
// settings while it runs, so the log says what to do instead. The caller calls done when the node has ended.
func ignoreHangups(log *slog.Logger) (done func()) {
	if hangupEnds() || signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	hangups, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range hangups {
			log.Warn("SIGHUP is ignored: restart the node to apply changed settings")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}
