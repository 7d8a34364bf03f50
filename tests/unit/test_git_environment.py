from sandbox.git.environment import make_environment


def test_nothing_of_the_users_or_systems_configuration_is_read():
    environment = make_environment("/usr/bin")

    assert environment["PATH"] == "/usr/bin"
    assert environment["GIT_CONFIG_NOSYSTEM"] == "1"
    assert environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert environment["GIT_ATTR_NOSYSTEM"] == "1"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert environment["LC_ALL"] == "C"


def test_only_listed_transports_may_be_used():
    assert make_environment()["GIT_ALLOW_PROTOCOL"] == "https:http:ssh:git:file"


def test_every_configuration_key_has_its_value():
    environment = make_environment()

    count = int(environment["GIT_CONFIG_COUNT"])
    assert all(f"GIT_CONFIG_KEY_{n}" in environment for n in range(count))
    assert all(f"GIT_CONFIG_VALUE_{n}" in environment for n in range(count))
