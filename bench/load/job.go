package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// job is the work as the command line describes it.
type job struct {
	broker      string
	topic       string
	beside      string
	codec       string
	records     int
	size        int
	partitions  int
	connections int
	group       string
	groups      int
	topics      int
	members     int
	configs     string
	keys        int
	from        int
	each        int
	requests    int
	every       time.Duration
	lasting     time.Duration
	pause       time.Duration
	firstMillis int64
	acks        string
	idempotent  bool
	replicas    string
	factor      int
	want        string
}

// arguments are the name of the work, its deadline and the rest of the command line. It ends the program where flags
// are unknown, or words are left over.
func arguments() (string, time.Duration, job) {
	var j job
	work := flag.String("work", "produce", "one of the names in works")
	deadline := flag.Duration("deadline", 2*time.Minute, "give up after this long")
	flag.StringVar(&j.broker, "broker", "127.0.0.1:9092", "a loopback address; settled, elect and gap take several: a,b,c")
	flag.StringVar(&j.topic, "topic", "bench", "the topic to work on")
	flag.StringVar(&j.beside, "beside", "", "the topic of the small requests beside large messages and cold reads")
	flag.StringVar(&j.codec, "codec", "none", "none, gzip, snappy, lz4 or zstd")
	flag.IntVar(&j.records, "records", 2_000_000, "how many records in all")
	flag.IntVar(&j.size, "size", 100, "bytes of each record's value")
	flag.IntVar(&j.partitions, "partitions", 4, "partitions of a created topic, or those that records are written to")
	flag.IntVar(&j.connections, "connections", 1, "of single, steady and cold, each with one request in flight, and of opened; producers of transactions and committed")
	flag.StringVar(&j.group, "group", "bench", "the group of join, or what the names of groups and transactional ids begin with")
	flag.IntVar(&j.groups, "groups", 1, "groups of the works commits, offsets and heartbeats")
	flag.IntVar(&j.topics, "topics", 1, "topics of the works topics and commits: their names are numbered")
	flag.IntVar(&j.members, "members", 1, "members that join at once, or consumers of tailing")
	flag.StringVar(&j.configs, "configs", "", "what create and alter set for a topic: key=value,key=value")
	flag.IntVar(&j.keys, "keys", 0, "different keys of fill's records, at random; 0: without keys")
	flag.IntVar(&j.from, "from", 0, "the number of fill's first record")
	flag.IntVar(&j.each, "each", 1, "records of each batch of appends and touch, and of each transaction")
	flag.IntVar(&j.requests, "requests", 1_000, "how many requests a work makes; of steady, heartbeats and committed on each connection")
	flag.DurationVar(&j.every, "every", time.Second, "time between two requests of one connection that keeps a rate")
	flag.DurationVar(&j.lasting, "lasting", 2*time.Second, "how long transactions go on")
	flag.DurationVar(&j.pause, "pause", 20*time.Millisecond, "before a transactional producer sends again what was answered CONCURRENT_TRANSACTIONS")
	flag.Int64Var(&j.firstMillis, "first-ms", 0, "when fill's record 0 was made; each one after it is 1 ms younger")
	flag.StringVar(&j.acks, "acks", "1", "acknowledgements that produce and single wait for: 1 of the leader, all of every in-sync replica")
	flag.BoolVar(&j.idempotent, "idempotent", false, "whether produce and single are idempotent producers, which implies -acks all")
	flag.StringVar(&j.replicas, "replicas", "", "the brokers of every partition that create makes, the leader first: 1,2,3")
	flag.IntVar(&j.factor, "factor", 1, "replicas of each partition that create and spread make, placed by the broker")
	flag.StringVar(&j.want, "want", "led", "what settled waits for: led, full or preferred")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "load: %q is no flag: see -help\n", strings.Join(flag.Args(), " "))
		os.Exit(2)
	}
	return *work, *deadline, j
}

// check refuses what no work can mean.
func (j job) check() error {
	for _, one := range []struct {
		flag  string
		value int
	}{
		{"records", j.records}, {"size", j.size}, {"partitions", j.partitions}, {"connections", j.connections},
		{"groups", j.groups}, {"topics", j.topics}, {"members", j.members}, {"each", j.each},
		{"requests", j.requests}, {"every", int(j.every)}, {"factor", j.factor},
		{"lasting", int(j.lasting)}, {"pause", int(j.pause)},
	} {
		if one.value <= 0 {
			return fmt.Errorf("-%s must be more than 0", one.flag)
		}
	}
	if !slices.Contains([]string{"1", "all"}, j.acks) {
		return fmt.Errorf("-acks is 1 or all, not %q", j.acks)
	}
	if !slices.Contains([]string{"led", "full", "preferred"}, j.want) {
		return fmt.Errorf("-want is led, full or preferred, not %q", j.want)
	}
	_, err := codec(j.codec)
	return err
}

// needBeside refuses work whose small requests have no topic of their own.
func (j job) needBeside() error {
	if j.beside == "" || j.beside == j.topic {
		return fmt.Errorf("-beside must name another topic than -topic")
	}
	return nil
}
