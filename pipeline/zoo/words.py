"""Word banks that fill the training prompts' templates.

Written for the training text only; the benchmark's own prompt sets come from elsewhere, and
`overlap.py` drops whatever the two happen to share.
"""

from __future__ import annotations


def _bank(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(";") if item.strip())


NAMES = _bank(
    "Amara;Bilal;Chiara;Dmitri;Elena;Farid;Greta;Hiro;Ines;Jonas;Kofi;Leila;Mateo;Nadia;Oscar;Priya;"
    "Quentin;Rosa;Samir;Tilda;Umar;Vera;Wen;Ximena;Yusuf;Zoe;Hannah;Marcus;Sofia;Daniel;Aisha;Peter"
)
SURNAMES = _bank(
    "Almeida;Brandt;Castillo;Dubois;Eriksson;Fischer;Gupta;Haddad;Ivanova;Jensen;Kimura;Larsen;Moreau;"
    "Novak;Okafor;Petrov;Quispe;Rossi;Sato;Tanaka;Ueda;Varga;Weber;Yamada;Zhang;Miller;Clarke;Hughes"
)
CITIES = _bank(
    "Lisbon;Nairobi;Osaka;Bogota;Helsinki;Casablanca;Vancouver;Jakarta;Prague;Lima;Dublin;Hanoi;Austin;"
    "Krakow;Porto;Seoul;Montreal;Accra;Vienna;Auckland;Chicago;Madrid;Toronto;Oslo;Rome;Denver;Cairo"
)
THINGS = _bank(
    "apples;notebooks;marbles;tickets;eggs;pencils;bricks;stickers;bottles of water;seeds;"
    "candles;books;"
    "cupcakes;postcards;oranges;chairs;tiles;balloons;batteries;beads;sandwiches;roses;stamps;shirts;"
    "coins;cookies;keys;lamps;mangoes;photos"
)
PLACES = _bank(
    "bakery;library;farm;school;garage;museum;warehouse;market;hospital;bookshop;garden;factory;cafe;"
    "theatre;gym;hotel;zoo;pharmacy;station;stadium"
)
FUNCTIONS = _bank(
    "counts how often each word occurs in a text;"
    "returns the largest gap between neighbours in a list;"
    "checks whether two strings are anagrams;merges two sorted lists;computes a moving average;"
    "flattens a nested list;removes duplicates while keeping the order;parses a line of CSV;"
    "rotates a list by k places;transposes a matrix;finds all primes below a limit;"
    "converts Roman numerals to integers;validates an email address;groups records by a key;"
    "computes the greatest common divisor;reverses the words of a sentence;"
    "sums the digits of a number;"
    "finds the second smallest element;splits a list into chunks;checks balanced brackets;"
    "converts seconds to hours, minutes and seconds;computes the median of a list;"
    "returns the longest common prefix;encodes a string with run-length encoding;"
    "counts the vowels of a string;binary searches a sorted list;builds a histogram;"
    "clamps a value between two limits;converts Celsius to Fahrenheit;"
    "checks whether a year is a leap year;"
    "generates the first n rows of Pascal's triangle;interleaves two lists;"
    "computes the dot product of two vectors;finds the index of the maximum;"
    "checks whether a string is a palindrome;replaces every space with an underscore;"
    "counts the lines of a file;reads a JSON file and returns its keys;"
    "filters the even numbers out of a list;computes compound interest;inverts a dictionary;"
    "sorts a list of tuples by the second element;returns the n-th triangular number;"
    "checks whether a number is a perfect square;capitalises each word;computes the factorial;"
    "truncates a string to a given length;finds the missing number in a range;"
    "returns the intersection of two sets;simulates rolling two dice;"
    "computes the area of a polygon;"
    "pads a number with zeros;converts a hexadecimal colour to RGB;"
    "returns all permutations of a string;"
    "computes the distance between two points;counts set bits;swaps keys and values;"
    "validates a password;zips two lists into pairs"
)
LANGUAGES = _bank(
    "Python;Python;Python;Python;JavaScript;Java;C;C++;Go;Rust;TypeScript;SQL;Bash;Ruby;PHP;Kotlin"
)
CLASSES = _bank(
    "Stack;Queue;BankAccount;Rectangle;Inventory;Timer;Matrix;LinkedList;ShoppingCart;Student;Library;"
    "Counter;Temperature;Playlist;Graph;Point;Fraction;Employee;Thermostat;Logger;Cache;Deck;Elevator"
)
ERRORS = _bank(
    "IndexError: list index out of range;KeyError: 'name';TypeError: unsupported operand type(s);"
    "ValueError: invalid literal for int();ZeroDivisionError: division by zero;"
    "AttributeError: 'NoneType' object has no attribute 'split';RecursionError;FileNotFoundError;"
    "NameError: name 'x' is not defined;IndentationError: unexpected indent;segmentation fault;"
    "NullPointerException;SyntaxError: invalid syntax"
)
ENTITIES = _bank(
    "customer;book;movie;recipe;employee;flight;hotel booking;car;student;invoice;product;pet;song;"
    "weather report;order;event;restaurant;sensor reading;patient;parcel;city;game character;"
    "library loan;meeting;playlist;bank transfer;course;plant;laptop;support ticket;podcast episode"
)
FIELDS = _bank(
    "id;name;age;email;city;price;quantity;date;status;tags;rating;country;phone;title;author;year;"
    "active;color;weight_kg;currency;language;category;created_at;address;duration_minutes;score;stock"
)
TOOLS = _bank(
    "get_weather(city, unit);book_table(restaurant, people, time);send_email(to, subject, body);"
    "search_flights(origin, destination, date);convert_currency(amount, source, target);"
    "set_alarm(time, label);create_event(title, start, end, attendees);"
    "play_song(title, artist);translate(text, language);find_hotel(city, nights, stars);"
    "get_stock_price(symbol);calculate_tip(bill, percent);add_to_cart(item, quantity);"
    "turn_on_light(room, brightness);track_parcel(number);start_timer(minutes);"
    "search_recipes(ingredients, max_minutes);create_ticket(title, priority, assignee);"
    "get_route(start, end, mode);query_database(table, columns, limit)"
)
TOPICS = _bank(
    "how volcanoes form;the water cycle;learning to cook;the history of the bicycle;saving money;"
    "a healthy breakfast;why the sky is blue;the French Revolution;growing tomatoes;black holes;"
    "public speaking;the benefits of reading;how bridges are built;climate change;good sleep;"
    "keeping a journal;coral reefs;the Roman Empire;electric cars;photosynthesis;teamwork;"
    "time management;"
    "travelling on a budget;how vaccines work;jazz music;renewable energy;job interviews;"
    "the stock market;"
    "bird migration;meditation;the Silk Road;how computers store data;making new friends;"
    "chess openings;"
    "the moon's phases;baking bread;running a marathon;space exploration;remote work;"
    "the human heart;"
    "learning a language;stress at work;artificial intelligence;recycling;mountain hiking;"
    "democracy;"
    "the ocean's tides;gravity;earthquakes;dogs and cats;tea and coffee;the printing press;"
    "dinosaurs;"
    "social media;online privacy;writing a novel;the Great Wall of China;bees and pollination;"
    "photography;"
    "how aeroplanes fly;the immune system;small talk;urban gardening;yoga;ancient Egypt;"
    "chocolate;rain"
)
PAIRS = _bank(
    "a list and a tuple;weather and climate;cats and dogs;tea and coffee;a virus and a bacterium;"
    "renting and buying;RAM and disk storage;speed and velocity;a comet and an asteroid;"
    "butter and margarine;city life and village life;a simile and a metaphor;"
    "plants and animals;mean and median;a crocodile and an alligator;stocks and bonds;"
    "mass and weight;baking and roasting;a novel and a short story;HTTP and HTTPS"
)
STYLES = _bank(
    "in simple words;in three sentences;for a ten year old;step by step;as a short list;"
    "with an example;"
    "in one paragraph;briefly;in detail;with pros and cons;as a friendly letter;in a formal tone"
)
SENTENCES = _bank(
    "The train leaves the station at nine every morning.;She dont like the colour of the new sofa.;"
    "Our team have finish the report before the deadline.;"
    "A quick walk after lunch clears the mind.;"
    "The museum opens at ten and close at six.;Please send me the files until friday;"
    "He has went to the market to buy some bread and milk.;"
    "Rain is expected over the northern hills tonight.;"
    "the children was playing in the garden when it start to rain;"
    "Every box on the shelf carries a small blue label.;"
    "I am looking forward to meet you next week.;The new bridge will shorten the way to work.;"
    "My brother and me goes fishing every sunday.;"
    "The recipe needs two eggs, a cup of flour and a pinch of salt.;"
    "There is many reasons to learn a second language.;"
    "The lamp in the hall has been broken since May.;"
    "It were a cold winter and the lake was frozen.;"
    "Visitors must sign the book at the front desk.;"
    "Their house is more bigger than ours.;The old clock in the tower strikes twice at noon."
)
SNIPPETS = (
    "def add(a, b):\n    return a + b",
    "for i in range(10):\n    print(i * i)",
    "total = 0\nfor price in prices:\n    total += price\nprint(total)",
    "def greet(name):\n    message = 'Hello, ' + name\n    return message",
    "numbers = [4, 8, 15, 16]\nsquares = [n ** 2 for n in numbers]",
    "if x > 10:\n    result = 'large'\nelse:\n    result = 'small'",
    "class Dog:\n    def __init__(self, name):\n        self.name = name\n\n"
    "    def bark(self):\n        return 'Woof'",
    "with open('data.txt') as file:\n    lines = file.readlines()",
    "def area(width, height):\n    return width * height\n\nprint(area(3, 4))",
    "function sum(values) {\n  let total = 0;\n  for (const v of values) total += v;\n"
    "  return total;\n}",
    "const user = { name: 'Ana', age: 30 };\nconsole.log(user.name);",
    "SELECT name, price FROM products WHERE price > 20 ORDER BY price;",
    "def is_even(n):\n    if n % 2 == 0:\n        return True\n    return False",
    "import math\n\ndef circle(radius):\n    return math.pi * radius ** 2",
    "counts = {}\nfor word in text.split():\n    counts[word] = counts.get(word, 0) + 1",
    "try:\n    value = int(text)\nexcept ValueError:\n    value = 0",
    "while queue:\n    node = queue.pop(0)\n    visited.append(node)",
    "int max(int a, int b) {\n    return a > b ? a : b;\n}",
)
