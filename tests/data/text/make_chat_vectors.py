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
# Qwen's own texts about tools are shortened; no tools are given here.
QWEN_TOOLS = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if SYSTEM %}
        {{- CONTENT }}
    {%- endif %}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if SYSTEM %}
        {{- '<|im_start|>system\n' + CONTENT + '<|im_end|>\n' }}
    DEFAULT{%- endif %}
{%- endif %}
"""
QWEN_CALLS = r"""{%- for tool_call in message.tool_calls %}
            {{- '<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '"}\n</tool_call>' }}
        {%- endfor %}
"""
QWEN25 = QWEN_TOOLS.replace("SYSTEM", "messages[0]['role'] == 'system'").replace("CONTENT", "messages[0]['content']").replace(
    "DEFAULT", r"""{%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    """) + r"""{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        """ + QWEN_CALLS + r"""    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
QWEN3_SYSTEM = QWEN_TOOLS.replace("SYSTEM", "messages[0].role == 'system'").replace("CONTENT", "messages[0].content").replace(
    "DEFAULT", "")
QWEN3 = QWEN3_SYSTEM + r"""{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            """ + QWEN_CALLS + r"""        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
# Variants that are known too: with thoughts always, and without any.
QWEN3_SWITCH = QWEN3[QWEN3.index("    {%- if enable_thinking is"):QWEN3.rindex("{%- endif %}")]
QWEN3_THINKS = QWEN3.replace(QWEN3_SWITCH, "").replace("assistant\n' }}", "assistant\n<think>\n' }}")
QWEN3_SAYS = (QWEN3_SYSTEM + QWEN3[QWEN3.index("{%- for message in messages %}"):QWEN3.index("        {%- set reasoning_content = ''")]
              + "        {{- '<|im_start|>' + message.role + '\n' + content }}\n"
              + QWEN3[QWEN3.index("        {%- if message.tool_calls %}"):].replace(QWEN3_SWITCH, ""))
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
    "qwen2.5": QWEN25,
    "qwen3": QWEN3,
}
# Rendered as well, without a name of their own.
VARIANTS = {"Qwen 3 that thinks": QWEN3_THINKS, "Qwen 3 that only says": QWEN3_SAYS}
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
    "Qwen 2.5 trimmed": QWEN25.replace("message.content +", "message.content | trim +"),
    "Qwen 3 with its thoughts": QWEN3.replace("{%- if loop.index0 > ns.last_query_index %}", "{%- if true %}"),
    "Qwen 3 that must not think": QWEN3.replace("enable_thinking is defined and enable_thinking is false", "true"),
    "plain": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    "empty": "",
}


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def content(rng, more):
    parts = more + [" ", "\n", "\t", "\u3000", "\xa0", "\x1c", "\x85", "a", "b", "Hello", "é", "🙂", "<|im_end|>", "{{x}}", "\u200b"]
    return "".join(rng.choice(parts) for _ in range(rng.randrange(8)))


def conversations(rng, more=[]):
    for turns in (1, 2, 3, 5):
        for system in (False, True):
            messages = [{"role": "system", "content": content(rng, more)}] if system else []
            messages += [{"role": ("user", "assistant")[i % 2], "content": content(rng, more)} for i in range(turns)]
            yield messages
    yield [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    yield [{"role": "assistant", "content": "a"}]


def main():
    rng = random.Random(4)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    cases = []
    thoughts = ["<think>", "</think>", "<think>\n", "\n</think>\n\n", "<tool_response>", "</tool_response>"]
    for name, source in (TEMPLATES | VARIANTS).items():
        template = environment.from_string(source)
        more = thoughts if name.lower().startswith("qwen") else []
        for messages in (each for _ in range(4 if more else 1) for each in conversations(rng, more)):
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
        json.dump({"templates": TEMPLATES, "variants": VARIANTS, "unknown": UNKNOWN, "cases": cases}, file, indent=1)


if __name__ == "__main__":
    main()
