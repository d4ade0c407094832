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
//	load -broker 127.0.0.1:9092 -work tailing -topic t -members 50 -requests 500
//	load -broker 127.0.0.1:9092 -work steady -topic t -connections 500 -every 500ms -requests 20
//	load -broker 127.0.0.1:9092 -work opened -connections 2000
//	load -broker 127.0.0.1:9092 -work heartbeats -group g -groups 1000 -every 1s -requests 10
//	load -broker 127.0.0.1:9092 -work transactions -topic t -connections 16 -each 10 -lasting 2s
//	load -broker 127.0.0.1:9092 -work committed -topic t -connections 16 -every 100ms -requests 20
//	load -broker 127.0.0.1:9092 -work large-produce -topic t -beside u -size 10000000 -requests 50 -every 5ms
//	load -broker 127.0.0.1:9092 -work cold -topic t -records 1000000 -beside u -connections 8 -every 10ms
//
// The works appends, seeks, times, gap, and all from tailing on, wait for a line on standard input before they begin.
// Every loop is bounded by a count and by -deadline. It speaks to loopback addresses only.
package main

import (
	"bufio"
	"context"
	"encoding/json"
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

// result is what one run measured. Latencies are 0 where single requests are not timed.
type result struct {
	Records   int     `json:"records"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
	Bytes     int     `json:"bytes"`
	GapMicros float64 `json:"gap_us"`
	Refused   int     `json:"refused"` // requests of transactional producers that had to be sent again

	after func() // What is left to do once the result is printed and the broker's CPU time has been read.
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

	"tailing":       tailing,
	"steady":        steady,
	"opened":        opened,
	"heartbeats":    heartbeats,
	"large-produce": largeProduce,
	"large-fetch":   largeFetch,
	"cold":          cold,
	"transactions":  transactions,
	"committed":     committed,
}

func main() {
	work, deadline, j := arguments()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	measured, err := run(ctx, work, j)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		os.Exit(1)
	}
	if measured.after != nil {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		measured.after()
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
	if err := j.check(); err != nil {
		return result{}, err
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
	client, err := newClient(kgo.SeedBrokers(j.broker))
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
	client, err := newClient(kgo.SeedBrokers(j.broker))
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
	client, err := newClient(kgo.SeedBrokers(j.broker))
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
