// Command tidings is a node of the network, and the client that controls it.
//
//	tidings run                    runs a node: peer, poller and server for feed readers
//	tidings subscribe URL…         subscribes, and prints the addresses for a feed reader
//	tidings unsubscribe URL…       ends subscriptions
//	tidings keygen FILE            makes a publisher's key
//	tidings publish URL            signs and pushes items of a feed
//	tidings trust URL…             accepts the new key of a publisher
//	tidings watch QUERY            subscribes to a keyword search, unwatch ends it, watches lists them
//	tidings token create           lets others make searches with a token; list, change and revoke manage tokens
//	tidings notify add --to URL    tells a webhook or a person what is new; list, remove, test and dead manage them
//	tidings demo                   shows on this machine what cooperation brings
//	tidings list                   lists subscriptions and their state
//	tidings status                 shows the node and its network
//	tidings open                   prints an address that opens the node's pages in a browser
//	tidings doctor                 lists problems and what to do about them
//	tidings opml import|export     imports and exports subscriptions
//	tidings provision              plans a hosting centre for keyword subscriptions
//	tidings candidates list        lists the feeds that a crawler has found and its list lacks; dismiss rejects them
//	tidings version                prints the version
//	tidings healthcheck            checks whether the node answers, for containers
//	tidings completion SHELL       prints a script that completes commands
//
// All commands except run, demo, keygen, provision, version, healthcheck and completion use the JSON API of the running
// node, at --http.
//
// Scripts can rely on the commands, their flags, the first words of the lines that run prints ("reader", "peer"),
// the objects that --json prints, and the exit codes: 0 for success; 1 for a failure, with a line on standard error
// for each failure, and indented lines below it for what can be done; 2 for wrong usage, likewise. All other output
// is for people and may change.
//
// A setting comes from its flag, otherwise from the environment (TIDINGS_HTTP for --http), otherwise from
// config.toml (http = "…"), otherwise it has its default.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if hangupEnds() {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A usageError is a mistake in the command line.
type usageError struct {
	error
	command string // the command whose help explains the mistake; "" for the program's help
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{error: fmt.Errorf(format, args...)} }

// help returns the command line that shows the help.
func (e usageError) help() string { return strings.Join(nonempty("tidings", e.command, "--help"), " ") }

// An errorList holds the failures of one command. Each is printed on a line of its own.
type errorList []error

func (m errorList) Error() string { return errors.Join(m...).Error() }

func (m errorList) Unwrap() []error { return m }

// An errorWithLines is an error with further lines, which are printed indented below it.
type errorWithLines struct {
	error
	lines []string
}

func (d errorWithLines) Unwrap() error { return d.error }

// printError prints an error. It ignores a failure to print.
func printError(stderr io.Writer, err error) {
	if m, ok := errors.AsType[errorList](err); ok {
		for _, e := range m {
			printError(stderr, e)
		}
		return
	}
	text := "tidings: " + oneLine(err.Error())
	if d, ok := errors.AsType[errorWithLines](err); ok {
		text += ":"
		for _, l := range d.lines {
			text += "\n  " + oneLine(l)
		}
	}
	_, _ = fmt.Fprintln(stderr, text)
}

// run executes a command line, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return exitDone
	}
	wrong, usage := errors.AsType[usageError](err)
	if usage {
		end := "; see"
		if strings.HasSuffix(err.Error(), "?") {
			end = " See"
		}
		err = fmt.Errorf("%w%s %s", err, end, wrong.help())
	}
	printError(stderr, err)
	if usage {
		return exitUsage
	}
	return exitFailed
}
