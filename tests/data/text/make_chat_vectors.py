#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes chat_templates.json: templates, conversations and what Jinja2 makes of them, set up as Hugging Face does.

SmolLM2's template is the model's own (Apache-2.0); the others are written for this test with the statements that the
published ones of their kind are known by. Needs `pip install jinja2`."""
import json
import os
import random

from jinja2.sandbox import ImmutableSandboxedEnvironment

ALTERNATE = ("{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
             "{{ raise_exception('roles must alternate') }}{%- endif -%}")
SPLIT = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
"""
MISTRAL = SPLIT + """{#- A comment's apostrophe opens no string. #}
{{- bos_token }}
{%- for message in loop_messages %}""" + ALTERNATE + """
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
CHATML_MESSAGE = "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
CHATML_PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
TEMPLATES = {
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system"
               "\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_"
               "start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_gener"
               "ation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "chatml": "{% for message in messages %}" + CHATML_MESSAGE + "{% endfor %}" + CHATML_PROMPT,
    "llama2": SPLIT + "{%- for message in loop_messages -%}" + ALTERNATE + """
        {%- if loop.first and system_message is defined -%}
            {%- set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] -%}
        {%- else -%}{%- set content = message['content'] -%}{%- endif -%}
        {%- if message['role'] == 'user' -%}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
        {%- else -%}{{ ' ' + content.strip() + ' ' + eos_token }}{%- endif -%}{%- endfor -%}""",
    "llama3": "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>"
              "\\n\\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.first %}{{ bos_token }}{% endif %}"
              "{{ content }}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "llama3.1": LLAMA31,
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
             "{% endif %}{% for message in messages %}" + ALTERNATE +
             "{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
             "{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}""" + ALTERNATE + """
    {%- if message['role'] == 'assistant' -%}{%- set role = "model" -%}
    {%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {{- message['content'] | trim }}
    {{- '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\n' }}
{%- endif -%}
""",
    "mistral": "{{ bos_token }}{% for message in messages %}" + ALTERNATE +
               "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
               "{% else %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}",
    "mistral-v3": MISTRAL.replace('"[INST]"', '"[INST] "').replace(
        '{{- message["content"] + eos_token }}', '{{- " " + message["content"]|trim + eos_token }}'),
    "mistral-nemo": MISTRAL,
}
# Close to known ones, but not the same text comes out: none may be taken for its neighbour.
UNKNOWN = {
    "trimmed ChatML": TEMPLATES["chatml"].replace("message.content", "message.content | trim"),
    "ChatML with tools": "{% if tools %}{{ tools }}{% endif %}" + TEMPLATES["chatml"],
    "ChatML without system": "{% for message in messages %}{% if message['role'] != 'system' %}" + CHATML_MESSAGE +
                             "{% endif %}{% endfor %}" + CHATML_PROMPT,
    "Mistral 0.1": TEMPLATES["mistral"].replace("+ eos_token}}", "+ eos_token + ' ' }}"),
    "Ministral": MISTRAL.replace('{{- message["content"] + eos_token }}',
                                 '{{- " " + message["content"]|trim + eos_token }}'),
    "Llama 2 with a default": TEMPLATES["llama2"].replace("loop.first and", "true == true or loop.first and"),
    "plain": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    "empty": "",
}


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def content(rng):
    parts = [" ", "\n", "\t", "\u3000", "\xa0", "\x1c", "\x85", "a", "b", "Hello", "é", "🙂", "<|im_end|>", "{{x}}", "\u200b"]
    return "".join(rng.choice(parts) for _ in range(rng.randrange(8)))


def conversations(rng):
    for turns in (1, 2, 3, 5):
        for system in (False, True):
            messages = [{"role": "system", "content": content(rng)}] if system else []
            messages += [{"role": ("user", "assistant")[i % 2], "content": content(rng)} for i in range(turns)]
            yield messages
    yield [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    yield [{"role": "assistant", "content": "a"}]


def main():
    rng = random.Random(4)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    cases = []
    for name, source in TEMPLATES.items():
        template = environment.from_string(source)
        for messages in conversations(rng):
            prompt = rng.random() < 0.6
            case = {"name": name, "messages": messages, "add_generation_prompt": prompt}
            try:
                case["expected"] = template.render(messages=messages, add_generation_prompt=prompt, bos_token="<s>",
                                                   eos_token="</s>")
            except Raised:
                case["expected"] = None
            cases.append(case)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_templates.json")
    with open(path, "w") as file:
        json.dump({"templates": TEMPLATES, "unknown": UNKNOWN, "cases": cases}, file, indent=1)


if __name__ == "__main__":
    main()
