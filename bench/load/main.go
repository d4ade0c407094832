// Command load puts one kind of work on a Kafka broker and prints what it measured as one line of JSON.
//
//	load -broker 127.0.0.1:9092 -work produce -topic t -records 2000000 -codec none
//	load -broker 127.0.0.1:9092 -work consume -topic t -records 2000000
//	load -broker 127.0.0.1:9092 -work single -topic t -records 20000 -connections 16
//	load -broker 127.0.0.1:9092 -work join -topic t -group g -members 50
//	load -broker 127.0.0.1:9092 -work commits -topic t -topics 200 -group g -groups 1000 -records 10000
//
// Every loop is bounded by a count and by -deadline. It speaks to loopback addresses only.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// job is the work as the command line describes it.
type job struct {
	broker      string
	topic       string
	codec       string
	records     int
	size        int
	partitions  int
	connections int
	group       string
	groups      int
	topics      int
	members     int
}

// result is what one run measured. Latencies are 0 where single requests are not timed.
type result struct {
	Records   int     `json:"records"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
}

func main() {
	var j job
	work := flag.String("work", "produce", "create, delete, produce, consume, single, topics, join, commits or offsets")
	deadline := flag.Duration("deadline", 2*time.Minute, "give up after this long")
	flag.StringVar(&j.broker, "broker", "127.0.0.1:9092", "a loopback address")
	flag.StringVar(&j.topic, "topic", "bench", "the topic to work on")
	flag.StringVar(&j.codec, "codec", "none", "none, gzip, snappy, lz4 or zstd")
	flag.IntVar(&j.records, "records", 2_000_000, "how many records in all")
	flag.IntVar(&j.size, "size", 100, "bytes of each record's value")
	flag.IntVar(&j.partitions, "partitions", 4, "partitions of a created topic")
	flag.IntVar(&j.connections, "connections", 1, "clients of the work single, each with one request in flight")
	flag.StringVar(&j.group, "group", "bench", "the group of join, or what the names of groups begin with")
	flag.IntVar(&j.groups, "groups", 1, "groups of the works commits and offsets")
	flag.IntVar(&j.topics, "topics", 1, "topics of the works topics and commits: their names are numbered")
	flag.IntVar(&j.members, "members", 1, "members that join at once")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), *deadline)
	defer cancel()
	measured, err := run(ctx, *work, j)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, work string, j job) (result, error) {
	if err := onlyLoopback(j.broker); err != nil {
		return result{}, err
	}
	switch work {
	case "create":
		return result{}, create(ctx, j)
	case "delete":
		return result{}, remove(ctx, j)
	case "produce":
		return produce(ctx, j)
	case "consume":
		return consume(ctx, j)
	case "single":
		return single(ctx, j)
	case "topics":
		return topics(ctx, j)
	case "join":
		return join(ctx, j)
	case "commits":
		return commits(ctx, j)
	case "offsets":
		return offsets(ctx, j)
	default:
		return result{}, fmt.Errorf("no work is called %q", work)
	}
}

// onlyLoopback refuses any address but this machine's own: a load generator is no toy for other networks.
func onlyLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not a loopback address", host)
	}
	return nil
}

func create(ctx context.Context, j job) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = j.topic
	topic.NumPartitions = int32(j.partitions)
	topic.ReplicationFactor = 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 10_000
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func remove(ctx context.Context, j job) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(j.topic)
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 10_000
	request.TopicNames = []string{j.topic}
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func summary(records int, took time.Duration) result {
	return result{Records: records, Seconds: took.Seconds(), PerSecond: float64(records) / took.Seconds()}
}
