#!/bin/sh
# The whole story in plain curl: three tasks, a job, its end, its adapter. Needs URL, KEY and OUT.
set -eu

ask() { # METHOD PATH [BODY]
  if [ $# -gt 2 ]; then
    curl -sS --fail-with-body -X "$1" "$URL$2" -H "x-api-key: $KEY" -H "Content-Type: application/json" -d "$3"
  else
    curl -sS --fail-with-body -X "$1" "$URL$2" -H "x-api-key: $KEY"
  fi
}
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -1; }

for word in Bonjour Hello Hola; do
  ask POST /doc/create '{
    "workspaceid": "curl",
    "data": [{
      "autoParse": true,
      "rawTrainingData": {"task_spec": {
        "prompt": "Create greeting.txt containing the word '$word'",
        "env": "tfcode",
        "max_steps": 8,
        "checker": {"type": "exit_code", "config": {"command": "grep -q '$word' greeting.txt"}}
      }},
      "type": "rlTask", "userid": "me", "title": "'$word'", "topics": ["greetings"],
      "status": "published", "scope": "training"
    }]
  }' >/dev/null
done

made=$(ask POST /finetuning/create '{
  "name": "Greetings", "base_model": "starter", "training_type": "grpoTraining", "rlvr": true, "topics": ["greetings"]
}')
id=$(printf '%s' "$made" | sed 's/^{"id":"\([^"]*\)".*/\1/')
ask POST "/finetuning/start/$id" '{"config": {"rl": {"enabled": true, "numGenerations": 4, "maxSteps": 6}}}' >/dev/null

while :; do
  state=$(ask GET "/finetuning/status/$id" | field state)
  case $state in
    finished) break ;;
    failed | stopped | interrupted) echo "the job is $state" >&2; exit 1 ;;
  esac
  sleep 0.2
done

curl -sS --fail-with-body -o "$OUT" "$URL/finetuning/download/$id" -H "x-api-key: $KEY"
echo "$id"
