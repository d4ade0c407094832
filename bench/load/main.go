// Command load puts one kind of work on a Kafka broker and prints what it measured as one line of JSON.
//
//	load -broker 127.0.0.1:9092 -work produce -topic t -records 2000000 -codec none
//	load -broker 127.0.0.1:9092 -work consume -topic t -records 2000000
//	load -broker 127.0.0.1:9092 -work single -topic t -records 20000 -connections 16
//	load -broker 127.0.0.1:9092 -work join -topic t -group g -members 50
//	load -broker 127.0.0.1:9092 -work commits -topic t -topics 200 -group g -groups 1000 -records 10000
//	load -broker 127.0.0.1:9092 -work fill -topic t -records 1000000 -size 1024 -first-ms 1700000000000
//	load -broker 127.0.0.1:9092 -work seeks -topic t -records 1000000 -requests 2000
//	load -broker 127.0.0.1:9092 -work spread -topic t -topics 100 -partitions 100
//	load -broker 127.0.0.1:9092,127.0.0.1:9093 -work settled -topic t -topics 100 -partitions 100 -want full
//	load -broker 127.0.0.1:9092,127.0.0.1:9093 -work gap -topic t
//
// The works appends, seeks, times and gap wait for a line on standard input before they begin.
// Every loop is bounded by a count and by -deadline. It speaks to loopback addresses only.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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
	configs     string
	keys        int
	from        int
	each        int
	requests    int
	firstMillis int64
	acks        string
	replicas    string
	factor      int
	want        string
}

// result is what one run measured. Latencies are 0 where single requests are not timed.
type result struct {
	Records   int     `json:"records"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
	Bytes     int     `json:"bytes"`
	GapMicros float64 `json:"gap_us"`
}

var works = map[string]func(context.Context, job) (result, error){
	"create":  create,
	"delete":  remove,
	"alter":   alter,
	"produce": produce,
	"consume": consume,
	"single":  single,
	"topics":  topics,
	"join":    join,
	"commits": commits,
	"offsets": offsets,
	"fill":    fill,
	"appends": appends,
	"seeks":   seeks,
	"times":   times,
	"spread":  spread,
	"touch":   touch,
	"serving": serving,
	"settled": settled,
	"elect":   elect,
	"gap":     gap,
}

func main() {
	var j job
	work := flag.String("work", "produce", "one of the names in works")
	deadline := flag.Duration("deadline", 2*time.Minute, "give up after this long")
	flag.StringVar(&j.broker, "broker", "127.0.0.1:9092", "a loopback address; settled, elect and gap take several: a,b,c")
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
	flag.StringVar(&j.configs, "configs", "", "what create and alter set for a topic: key=value,key=value")
	flag.IntVar(&j.keys, "keys", 0, "different keys of fill's records, at random; 0: without keys")
	flag.IntVar(&j.from, "from", 0, "the number of fill's first record")
	flag.IntVar(&j.each, "each", 1, "records of each batch of appends and touch")
	flag.IntVar(&j.requests, "requests", 1_000, "how many requests appends, seeks and times make")
	flag.Int64Var(&j.firstMillis, "first-ms", 0, "when fill's record 0 was made; each one after it is 1 ms younger")
	flag.StringVar(&j.acks, "acks", "1", "acknowledgements that produce and single wait for: 1 of the leader, all of every in-sync replica")
	flag.StringVar(&j.replicas, "replicas", "", "the brokers of every partition that create makes, the leader first: 1,2,3")
	flag.IntVar(&j.factor, "factor", 1, "replicas of each partition that create and spread make, placed by the broker")
	flag.StringVar(&j.want, "want", "led", "what settled waits for: led, full or preferred")
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
	for _, broker := range strings.Split(j.broker, ",") {
		if err := onlyLoopback(broker); err != nil {
			return result{}, err
		}
	}
	do, known := works[work]
	if !known {
		return result{}, fmt.Errorf("no work is called %q", work)
	}
	return do(ctx, j)
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

func create(ctx context.Context, j job) (result, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 10_000
	request.Topics = append(request.Topics, topicToCreate(j, j.topic))
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return result{}, err
	}
	return result{}, kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func topicToCreate(j job, name string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions = int32(j.partitions)
	topic.ReplicationFactor = int16(j.factor)
	if j.replicas != "" {
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
		topic.ReplicaAssignment = placed(j)
	}
	for key, value := range pairs(j.configs) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name = key
		config.Value = kmsg.StringPtr(value)
		topic.Configs = append(topic.Configs, config)
	}
	return topic
}

// placed puts every partition on j.replicas.
func placed(j job) []kmsg.CreateTopicsRequestTopicReplicaAssignment {
	var brokers []int32
	for _, id := range strings.Split(j.replicas, ",") {
		if number, err := strconv.ParseInt(id, 10, 32); err == nil {
			brokers = append(brokers, int32(number))
		}
	}
	rows := make([]kmsg.CreateTopicsRequestTopicReplicaAssignment, j.partitions)
	for i := range rows {
		rows[i].Partition, rows[i].Replicas = int32(i), brokers
	}
	return rows
}

// pairs takes "key=value,key=value" apart.
func pairs(configs string) map[string]string {
	found := map[string]string{}
	for _, pair := range strings.Split(configs, ",") {
		if key, value, isPair := strings.Cut(pair, "="); isPair {
			found[key] = value
		}
	}
	return found
}

// alter sets j.configs for a topic that exists.
func alter(ctx context.Context, j job) (result, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeTopic
	resource.ResourceName = j.topic
	for key, value := range pairs(j.configs) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name = key
		config.Op = kmsg.IncrementalAlterConfigOpSet
		config.Value = kmsg.StringPtr(value)
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return result{}, err
	}
	return result{}, kerr.ErrorForCode(answer.Resources[0].ErrorCode)
}

func remove(ctx context.Context, j job) (result, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return result{}, err
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
		return result{}, err
	}
	return result{}, kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func summary(records int, took time.Duration) result {
	return result{Records: records, Seconds: took.Seconds(), PerSecond: float64(records) / took.Seconds()}
}
