package keywords

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Postgres is the system for comparison: a PostgreSQL server on this machine, as psql finds it, with
// the same subscriptions as queries of its full-text search, in two layouts.
//
//	btree  an index of the rarest word of each query; candidates are checked with @@
//	rum    an index of the queries themselves, if the extension RUM is installed
//
// It only counts the queries that match. The measure is the CPU time of its process, as the system
// reports it.
type Postgres struct {
	psql    *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	backend int // process id of the session's server process
	cpuTime func(pid int) (time.Duration, error)
	layouts []string
}

// peerArticles is the number of articles per length; the long ones take seconds each.
const peerArticles = 20

// A PeerRun is the result for articles of one length in one layout.
type PeerRun struct {
	Layout  string        `json:"layout"`
	CPU     time.Duration `json:"cpu_ns"`  // mean per article
	Matches int           `json:"matches"` // of all articles
}

// OpenPostgres starts a session and fills it with as many subscriptions as Match draws. cpuTime
// returns the CPU time of a process of this machine.
func OpenPostgres(ctx context.Context, words *Words, subscriptions int, spent func(pid int) (time.Duration, error), progress func(float64)) (p *Postgres, err error) {
	p = &Postgres{cpuTime: spent, psql: exec.CommandContext(ctx, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres")}
	p.psql.Stderr = os.Stderr
	if p.in, err = p.psql.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.psql.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.psql.Start(); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := p.fill(words, subscriptions, progress); err != nil {
		p.Close()
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return p, nil
}

// Close ends the session; its tables are temporary.
func (p *Postgres) Close() {
	_ = p.in.Close() // psql ends then
	for p.out.Scan() {
	}
	_ = p.psql.Wait() // an error was reported when it happened
}

// ask sends statements and returns the one line that they print.
func (p *Postgres) ask(statements string) (string, error) {
	if _, err := io.WriteString(p.in, statements+"\n"); err != nil {
		return "", err
	}
	if !p.out.Scan() {
		return "", fmt.Errorf("no answer to %.60q: %w", statements, cmpErr(p.out.Err(), io.ErrUnexpectedEOF))
	}
	return p.out.Text(), nil
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// fill creates and fills the session's temporary tables.
func (p *Postgres) fill(words *Words, subscriptions int, progress func(float64)) error {
	line, err := p.ask("SET client_min_messages = warning; SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB'; SET maintenance_work_mem = '512MB'; SET temp_buffers = '1GB'; SELECT pg_backend_pid();")
	if err != nil {
		return err
	}
	if p.backend, err = strconv.Atoi(line); err != nil {
		return fmt.Errorf("its process is %q", line)
	}
	w := bufio.NewWriterSize(p.in, 1<<20)
	_, _ = w.WriteString("CREATE TEMP TABLE q (rarest text, query tsquery);\nCOPY q FROM STDIN;\n") // Flush reports errors
	r := rand.New(rand.NewPCG(7, 1))
	var of []uint32
	for i := range subscriptions {
		if i%4096 == 0 {
			progress(float64(i) / float64(subscriptions))
		}
		of = words.Subscription(r, of[:0])
		_, _ = w.WriteString(words.names[slices.Max(of)] + "\t'")
		for j, word := range of {
			if j > 0 {
				_, _ = w.WriteString("' & '")
			}
			_, _ = w.WriteString(words.names[word])
		}
		_, _ = w.WriteString("'\n")
	}
	_, _ = w.WriteString("\\.\nCREATE INDEX q_rarest ON q (rarest);\nANALYSE q;\nCREATE TEMP TABLE a (length int, words text[], vector tsvector);\nSELECT count(*) FROM pg_available_extensions WHERE name = 'rum';\n")
	if err := w.Flush(); err != nil {
		return err
	}
	if !p.out.Scan() {
		return cmpErr(p.out.Err(), io.ErrUnexpectedEOF)
	}
	p.layouts = []string{"btree"}
	if p.out.Text() == "1" {
		p.layouts = append(p.layouts, "rum")
	}
	return nil
}

// Match matches articles of one length, given by their distinct words, in each layout.
func (p *Postgres) Match(length int, articles [][]string) (runs []PeerRun, err error) {
	var b strings.Builder
	for _, words := range articles {
		list := "'{" + strings.Join(words, ",") + "}'::text[]"
		fmt.Fprintf(&b, "INSERT INTO a VALUES (%d, %s, array_to_tsvector(%s));\n", length, list, list)
	}
	b.WriteString("ANALYSE a; SELECT 0;")
	if _, err := p.ask(b.String()); err != nil {
		return nil, err
	}
	where := map[string]string{"btree": "q.rarest = ANY (a.words) AND a.vector @@ q.query", "rum": "q.query @@ a.vector"}
	for _, layout := range p.layouts {
		if layout == "rum" { // otherwise the planner would prefer the other index
			if _, err := p.ask("CREATE EXTENSION IF NOT EXISTS rum; CREATE INDEX q_rum ON q USING rum (query rum_tsquery_ops); SELECT 0;"); err != nil {
				return nil, err
			}
		}
		count := fmt.Sprintf("SET enable_seqscan = off; SELECT sum(n) FROM (SELECT (SELECT count(*) FROM q WHERE %s) AS n FROM a WHERE length = %d) AS each;", where[layout], length)
		run := PeerRun{Layout: layout}
		for range 2 { // the second one counts
			before, err := p.cpuTime(p.backend)
			if err != nil {
				return nil, err
			}
			line, err := p.ask(count)
			if err != nil {
				return nil, err
			}
			after, err := p.cpuTime(p.backend)
			if err != nil {
				return nil, err
			}
			if run.Matches, err = strconv.Atoi(line); err != nil {
				return nil, fmt.Errorf("it matches %q", line)
			}
			run.CPU = (after - before) / time.Duration(len(articles))
		}
		runs = append(runs, run)
		if layout == "rum" {
			if _, err := p.ask("DROP INDEX q_rum; SELECT 0;"); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}
